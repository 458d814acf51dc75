;;; hlo-mode.el --- HLO, the graph language of XLA  -*- lexical-binding: t; -*-

;;; Commentary:

;; A mode for HLO text with `hlotool lsp' through Eglot, which comes with Emacs 29.  M-x eglot starts the server;
;; it is started by itself with (add-hook 'hlo-mode-hook #'eglot-ensure).

;;; Code:

(defvar hlo-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?. "_" table)
    (modify-syntax-entry ?- "_" table)
    (modify-syntax-entry ?% "_" table)
    table))

(defvar hlo-font-lock-keywords
  '(("\\_<\\(HloModule\\|ENTRY\\|ROOT\\)\\_>" . font-lock-keyword-face)
    ("^\\s-*\\(?:ROOT\\s-+\\)?\\(%?[A-Za-z_][A-Za-z0-9_.-]*\\)\\s-+=" 1 font-lock-variable-name-face)
    ("^\\(?:ENTRY\\s-+\\)?\\(%?[A-Za-z_][A-Za-z0-9_.-]*\\).*{\\s-*$" 1 font-lock-function-name-face)
    ("\\_<[a-z][a-z0-9]*\\[[^]]*\\]\\(?:{[0-9:][^{}]*}\\)?" . font-lock-type-face)
    ("[] )}]\\([a-z][a-z0-9-]*\\)(" 1 font-lock-builtin-face)))

;;;###autoload
(define-derived-mode hlo-mode prog-mode "HLO"
  "A mode for HLO text."
  (setq-local comment-start "// ")
  (setq-local comment-end "")
  (setq-local font-lock-defaults '(hlo-font-lock-keywords)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.hlo\\(?:\\.txt\\)?\\'" . hlo-mode))

(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(hlo-mode . ("hlotool" "lsp"))))

(provide 'hlo-mode)
;;; hlo-mode.el ends here
