# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sphinx's settings for the site; tools/dev/build_site.py builds it."""

project = "pyjit"
author = "the pyjit authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
master_doc = "index"
myst_heading_anchors = 6
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # `…` in IR stands for lines left out
html_theme = "alabaster"
html_theme_options = {
    "description": "a just-in-time compiler for PyTorch programs",
    "fixed_sidebar": True,
    "page_width": "1100px",
    "sidebar_width": "260px",
}
html_copy_source = False
html_show_sphinx = False
