"""Sphinx's settings for the site that `make book` builds; docs/book/make.py calls it."""

import re

from docutils import nodes
from latex2mathml.converter import convert

project = "rlkit"
author = "The rlkit authors"
copyright = "The rlkit authors, Apache-2.0"  # the name that Sphinx asks for
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
root_doc = "index"
exclude_patterns = ["_site"]

# Lessons were run before, with the network cut off, so that nothing runs here.
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show one solution"
nb_code_prompt_hide = "Hide the solution"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_use_ivar = True

html_theme = "furo"
html_title = "rlkit"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["plotly.min.js", "figures.js"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"


def setup(app):
    app.connect("autodoc-process-docstring", plain_markup, priority=100)  # before napoleon
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))


def inline_formula(writer, node):
    """A formula as MathML, which every browser draws without a script or a network."""
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def formula(writer, node):
    writer.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


def plain_markup(app, what, name, obj, options, lines):
    """Docstrings are written for people who read code: backticks mark code, bars draw tables."""
    told = []
    for block in re.split(r"(\n\s*\n)", "\n".join(lines)):
        if block.lstrip().startswith("|"):
            block = re.sub(r"(?m)^( *)", r"\1   ", block)
            block = re.match(r"\s*", block)[0][:-3] + "::\n\n" + block
        elif not block.lstrip().startswith(">>>"):
            block = block.replace("|", r"\|")
            block = re.sub(r"(?<!`)`([^`]+)`(?!`)", code, block)
        told.append(block)
    lines[:] = "".join(told).split("\n")


def code(found):
    """`x` and `x`s, as reStructuredText has them: the bars in it are meant as they are."""
    return "``" + " ".join(found[1].replace(r"\|", "|").split()) + "``\\ "
