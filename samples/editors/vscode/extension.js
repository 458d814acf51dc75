// Starts `hlotool lsp` and lets the language client do the rest.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("hlo").get("server.command");
  const run = { command, args };
  client = new LanguageClient(
    "hlo",
    "HLO",
    { run, debug: run },
    { documentSelector: [{ language: "hlo", scheme: "file" }, { language: "hlo", scheme: "untitled" }] }
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `HLO: '${[command, ...args].join(" ")}' does not start (${error.message}). ` +
        "pip install 'hlotool[lsp]', or set hlo.server.command."
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("hlo.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("hlo.server.command")) {
        restart();
      }
    })
  );
  await start();
}

module.exports = { activate, deactivate: stop };
