"""Flags and files: every field can be set, flags win, and errors name the place."""

import pytest
from pydantic import BaseModel

from p4reduce.cli.failures import BadInput
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.cli.settings import BY_FIELD, FLAGS, Settings
from p4reduce.cluster.experiment import Experiment


def fields(model, prefix=""):
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, f"{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_field_has_a_flag_and_every_flag_a_field():
    assert sorted(fields(Experiment)) == sorted(BY_FIELD)
    assert len({flag.option for flag in FLAGS}) == len(FLAGS)
    shorts = [flag.short for flag in FLAGS if flag.short]
    assert len(set(shorts)) == len(shorts)


def test_flags_override_the_file_which_overrides_the_command(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("plan: mst\nelements: 10\nfaults: {loss: 0.1, reorder: 0.2}\n")
    settings = Settings(config, {"elements": 20, "faults.loss": 0.3})
    experiment = settings.experiment({"plan": "ps", "lanes": 64, "faults.corrupt": 0.4}, seed=9)
    assert (experiment.plan, experiment.elements, experiment.lanes, experiment.seed) == ("mst", 20, 64, 9)
    assert experiment.faults.model_dump() == {"loss": 0.3, "duplicate": 0.0, "reorder": 0.2, "corrupt": 0.4}


def test_overrides_win_over_flags():
    assert Settings(None, {"faults.loss": 0.1}).experiment(faults__loss=0.2).faults.loss == 0.2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"plan": "quickest"}, r"^--plan: unknown plan 'quickest'; known: .*steiner"),
        ({"workers": 0}, r"^--workers: .*\(got 0\)$"),
        ({"faults.loss": 1.5}, r"^--loss: .*\(got 1.5\)$"),
        ({"numbers": "fixed"}, r"numbers: fixed needs scale"),
        ({"p4_json": "a.json"}, r"p4_json and p4_info belong together"),
        ({"p4_json": "/nowhere.json", "p4_info": "/nowhere.txt"}, r"--p4-json: /nowhere.json: there is no such file"),
    ],
)
def test_wrong_flags_are_named(given, message):
    with pytest.raises(BadInput, match=message):
        Settings(None, given).experiment()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan: [", "is not YAML"),
        ("- plan", "expected a mapping"),
        ("1: 2", "expected a mapping"),
        ("plans: mst", "run.yaml: plans: "),
        ("faults: {loss: many}", "run.yaml: faults.loss: "),
        ("lanes: 65", "run.yaml: lanes: "),
        ("\0", "is not YAML"),
    ],
)
def test_wrong_files_are_named(tmp_path, text, message):
    config = tmp_path / "run.yaml"
    config.write_text(text)
    with pytest.raises(BadInput, match=message):
        Settings(config, {}).experiment()


def test_a_flag_in_error_is_not_blamed_on_the_file(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("plan: mst")
    with pytest.raises(BadInput, match=r"^--lanes: "):
        Settings(config, {"lanes": 7}).experiment()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere.yaml: No such file"):
        Settings(tmp_path / "nowhere.yaml", {}).experiment()


def test_lists():
    assert texts("a, b,,a", "--x") == ["a", "b"]
    assert integers("3,0..2,1k,2M", "--x") == [3, 0, 1, 2, 1000, 2_000_000]
    assert floats("0,0.5,1e-3", "--x") == [0.0, 0.5, 0.001]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (texts, " , "),
        (integers, "a"),
        (integers, "4..2"),
        (integers, "0..9999999"),
        (integers, "k"),
        (integers, "-1"),
        (floats, "a"),
    ],
)
def test_wrong_lists_name_the_flag(parse, text):
    with pytest.raises(BadInput, match=r"^--these: "):
        parse(text, "--these")
