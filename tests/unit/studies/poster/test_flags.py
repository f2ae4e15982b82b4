"""Flags of the poster's study: one for each settings field, parsed by the field's type."""

from dataclasses import fields, replace

import pytest

from p4reduce.base.errors import BadInput
from p4reduce.group.errors import ClusterError
from studies.pages import parser, settings_of
from studies.poster.settings import QUICK, SCENARIOS, PosterSettings
from studies.poster.study import STUDY


def read(*arguments: str) -> PosterSettings:
    return settings_of(STUDY, parser(STUDY).parse_args(list(arguments)))


def test_every_field_has_a_flag_that_says_what_it_is():
    actions = {action.dest: action for action in parser(STUDY)._actions}
    for field in fields(PosterSettings):
        assert actions[field.name].option_strings == [f"--{field.name.replace('_', '-')}"]
        assert len(actions[field.name].help or "") > 5
    assert parser(STUDY).format_help()


def test_no_flag_changes_nothing():
    assert read() == PosterSettings()
    assert read("--quick") == QUICK


def test_flags_are_read_as_their_fields_are():
    own = read(
        "--quick", "--scenarios", "germany50,fat-tree", "--sizes", "3..5,15", "--tasks", "7", "--shares", "0.25,0.5",
        "--access-rates", "10G", "--access-elements", "1M", "--delays", "none", "--lambdas", "none",
        "--target-ms", "1.5",
        "--swap-networks", "fat-tree@0.01,germany50", "--ring-networks", "fat-tree", "--reference", "fat-tree",
        "--lanes", "64", "--policies", "spff,steiner", "--share-choosers", "soar", "--swap-thresholds", "0,2.5",
    )  # fmt: skip
    assert own == replace(
        QUICK,
        scenarios=(SCENARIOS["germany50"], SCENARIOS["fat-tree"]),
        sizes=(3, 4, 5, 15),
        tasks=7,
        shares=(0.25, 0.5),
        access_rates=("10G",),
        access_elements=(1_000_000,),
        delays=(),
        lambdas=(),
        target_ms=1.5,
        swap_networks=(("fat-tree", 0.01), ("germany50", 0.0)),
        ring_networks=("fat-tree",),
        reference="fat-tree",
        lanes=64,
        policies=("spff", "steiner"),
        share_choosers=("soar",),
        swap_thresholds=(0.0, 2.5),
    )


def test_networks_of_ones_own_stand_beside_those_that_are_named():
    own = read("--scenarios", "fat-tree;metro=wan:graph=nobel-us,hosts=2@0.2:7")
    assert [one.name for one in own.scenarios] == ["fat-tree", "metro"]
    assert (own.scenarios[1].topology, own.scenarios[1].load, own.scenarios[1].priority) == (
        "wan:graph=nobel-us,hosts=2",
        0.2,
        7,
    )
    assert [one.name for one in read("--scenarios", "metro=star:hosts=3").scenarios] == ["metro"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scenarios", "moon"), "--scenarios: 'moon' is none of"),
        (("--policies", "spff,fastest"), "--policies: 'fastest' is none of"),
        (("--sizes", "many"), "--sizes: "),
        (("--swap-networks", "fat-tree@much"), "--swap-networks: expected numbers"),
        (("--scenarios", "metro;fat-tree"), "nor NAME=TOPOLOGY"),
    ],
)
def test_what_cannot_be_read_names_the_flag(arguments, said):
    with pytest.raises(BadInput, match=said):
        read(*arguments)


def test_a_list_that_must_not_be_empty_is_refused():
    with pytest.raises(ClusterError, match="sizes: give at least one"):
        read("--sizes", "none")
