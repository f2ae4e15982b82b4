"""Flags and files: every field can be set, flags override files, and errors name the source."""

import pytest
from pydantic import BaseModel

from p4reduce.base.errors import BadInput
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.participant import check_memory
from p4reduce.runs.settings import Settings, experiment_flags


def fields(model, prefix=""):
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, f"{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_field_has_a_flag_and_every_flag_a_field():
    flags = experiment_flags()
    assert sorted(fields(Experiment)) == sorted(flags)
    assert len({flag.option for flag in flags.values()}) == len(flags)
    shorts = [flag.flag.short for flag in flags.values() if flag.flag.short]
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
        ({"plan": "quickest"}, r"^--plan: unknown plan 'quickest'; known: .*steiner[^(]*$"),
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
    assert texts("a, b,a", "--x") == ["a", "b"]
    assert integers("3,0..2,1k,2M,1.5k,1Ki", "--x") == [3, 0, 1, 2, 1000, 2_000_000, 1500, 1024]
    assert floats("0,0.5,1e-3", "--x") == [0.0, 0.5, 0.001]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (texts, " , "),
        (texts, "a,,b"),
        (integers, "1,2,"),
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


@pytest.mark.parametrize(
    ("text", "count"),
    [("262144", 262144), ("64k", 64_000), ("1.5M", 1_500_000), ("2Mi", 2 << 20), (" 3 G ", 3 * 10**9)],
)
def test_sizes_have_one_syntax(text, count):
    assert Settings(None, {"elements": text}).experiment().elements == count
    assert integers(text, "--elements") == [count]


@pytest.mark.parametrize("text", ["1.5", "k", "1e6", "-1", "9" * 30, "1Ti", "1 000"])
def test_wrong_sizes_are_named(text):
    with pytest.raises(BadInput, match="--elements: "):
        Settings(None, {"elements": text}).experiment()


def test_a_rate_without_a_unit_is_asked_about():
    with pytest.raises(BadInput, match=r"--rate: rate '10' is 10 bit/s; write '10G'"):
        Settings(None, {"rate": "10"}).experiment()
    assert Settings(None, {"rate": "10bit/s"}).experiment().rate == "10bit/s"


@pytest.mark.parametrize(
    ("field", "value", "flag"), [("plan", "x", "--plans"), ("rate", "x", "--rates"), ("faults__loss", 2.0, "--losses")]
)
def test_a_list_is_blamed_by_its_own_flag(field, value, flag):
    with pytest.raises(BadInput, match=f"^{flag}: "):
        Settings(None, {}).experiment(**{field: value})


def test_tensors_beyond_memory_are_refused():
    with pytest.raises(ExperimentError, match=r"need 80,000 GB of memory, this machine has .*--elements"):
        check_memory(10**12, 10)
    check_memory(10**6, 10)
