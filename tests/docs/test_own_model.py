"""The page shows the model file that the tests run, whole."""


def test_the_page_shows_the_example_as_it_is(project_root):
    page = (project_root / "docs/own-model.md").read_text(encoding="utf-8")
    shown = page.partition("```python\n")[2].partition("```\n")[0]
    assert shown == (project_root / "docs/examples/my_model.py").read_text(encoding="utf-8")
