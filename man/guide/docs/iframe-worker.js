// Search in pages that are opened as files: there browsers start no workers, so a hidden frame runs the script of one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const load = (url) =>
        new Promise((done, failed) => {
          const element = frame.contentDocument.createElement("script");
          Object.assign(element, { src: new URL(url, location.href), onload: done, onerror: failed });
          frame.contentDocument.body.append(element);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve());
      this.inside = inside;
      this.loaded = load(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
