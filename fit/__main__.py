"""Counts, constants and pages of the forecasts: `make forecasts`, or

python -m fit            # count steps without a digest, fit, evaluate, write the pages
python -m fit --rebuild  # count every step of XLA anew: minutes
python -m fit --blind    # forecast the blind families too: once, when everything else is done
"""

import sys

from fit import counts, energy, generators, language_models, lived, memory, newer, serving, test_set, tpu
from fit.decisions import RECORD, scored, strangers
from fit.fitting import Published, constants_of, published_rows, write
from fit.page import write_page
from fit.validation import evaluations, fair_test, measured_chips, models_left_out, scorecard, steps_that_wait, widths
from whichdevice.forecast.joint import SCORECARD
from whichdevice.forecast.time_model import CONSTANTS


def main() -> None:
    """Bring digests, constants and pages up to date with the rows of fit/data/."""
    again = "--rebuild" in sys.argv
    counts.count_published(again)
    counts.count_memory(again)
    language_models.write_digests()
    language_models.write_times()
    published = Published(published_rows())
    whole = published.fit()
    models = models_left_out(published, whole)
    write(constants_of(published, whole, widths(models)), CONSTANTS)
    found = evaluations(published, whole, models)
    card = scorecard(found) | {"small steps": steps_that_wait(published, whole)}
    new = strangers(published, whole)
    card["fair test"] = fair_test(published, whole, models, new, "--blind" in sys.argv)
    card["fair test"] |= measured_chips(found["a chip"])
    write(card, SCORECARD)
    for part in (tpu, serving, generators, energy, newer, lived, test_set):
        part.main()
    tested = {"models": found["models"], "model, chip and author": new}
    decided = {left: scored(forecasts, test_set.as_forecasts()) for left, forecasts in tested.items()}
    write(decided, RECORD)
    write_page(found, card, decided)
    memory.write_page()


if __name__ == "__main__":
    main()
