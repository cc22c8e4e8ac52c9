"""Records that a call replaces because its settings are others."""

from pathlib import Path

import synthetic

from whichdevice.planning.outdated import replaced_line
from whichdevice.records.store import write_record


def measured(planned) -> list[str]:
    """Records of all runs of the call, of this code."""
    for run in planned.wanted():
        write_record(synthetic.record_of_this_code(planned.study, run), Path(run.record(planned.study)))
    return planned.records(planned.wanted())


def test_records_of_other_settings_are_counted_and_the_first_says_what_changed(plan):
    records = measured(plan(measure={"repeats": 2, "seconds": 5.0}))
    line = replaced_line(plan().study, records)
    assert line.startswith(
        f"{len(records)} finished records were measured with other settings and will be measured again "
        f"(first: {records[0]}: seconds 5.0 -> 1.0). To keep them, stop and repeat the --config options"
    )
    assert "\n" not in line
    assert replaced_line(plan().study, records[:1]).startswith("1 finished record was measured with")


def test_data_from_another_source_are_another_setting(plan):
    records = measured(plan(data={"sources": {"mnist": "files"}}))
    images = [record for record in records if "/mnist_cnn/" in record]
    assert "(first: " + images[0] + ": source 'files' -> 'standin')" in replaced_line(plan().study, records)


def test_nothing_is_said_of_the_same_settings_of_a_longer_timeout_and_where_no_record_is(plan):
    records = measured(plan(measure={"repeats": 2, "timeout": 5.0}))
    planned = plan()
    assert replaced_line(planned.study, records) == ""
    for record in records:
        Path(record).unlink()
    assert replaced_line(plan(seed=9).study, records) == ""
    Path(records[0]).write_text("{", encoding="utf-8")
    assert replaced_line(plan(seed=9).study, records) == ""
