-- HLO in Neovim 0.11: file type and language server.  Older ones: the same table for vim.lsp.start in a FileType autocommand.

vim.filetype.add({ extension = { hlo = "hlo" }, pattern = { [".*%.hlo%.txt"] = "hlo" } })

vim.lsp.config("hlotool", {
  cmd = { "hlotool", "lsp" },
  filetypes = { "hlo" },
  root_markers = { "hlotool.toml", ".git" },
})
vim.lsp.enable("hlotool")

vim.api.nvim_create_autocmd("FileType", {
  pattern = "hlo",
  callback = function()
    vim.bo.commentstring = "// %s"
    vim.opt_local.iskeyword:append({ ".", "-" })
  end,
})

-- run, compare and open graph: :lua vim.lsp.codelens.run() on the line of ENTRY
vim.api.nvim_create_autocmd({ "LspAttach", "InsertLeave" }, {
  pattern = { "*.hlo", "*.hlo.txt" },
  callback = function(event)
    vim.lsp.codelens.refresh({ bufnr = event.buf })
  end,
})
