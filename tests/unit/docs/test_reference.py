"""Generated tables of the documentation are up to date."""

from tests.support.docs.reference import TABLES, pages, table


def test_tables_are_what_the_code_says():
    found = list(pages())
    assert len(found) == len(TABLES)
    for page, text, fresh in found:
        assert text == fresh, f"{page.name}: run python -m tests.support.docs.reference"


def test_tables_have_all_rows():
    assert table("reasons").count("\n") == 19
    assert "| `token` | a child or parent, but without the token that it was given | `token` |" in table("reasons")
    assert "| `star8` | 8 | 1 | 1 | 1 |" in table("topologies")
