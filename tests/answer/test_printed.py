"""Printed answers, whole, as a terminal of 100 columns shows them: read them as a person would."""

import pytest
from answer.test_answer import CHEAP, FAST, SMALL, UNRENTED, here
from answer.test_facts import SITUATIONS, asked

from whichdevice.decide.table import SPEED, cells, head, text

PRINTED = {
    "a day": """\
net · 300 million images · batch 100 · float32 here, mixed 16 bits elsewhere

Rent an L40S (Cloud): 8.3 h [5.7–12 h] instead of 3.5 days here, USD 6.67 [4.55–9.76].
Probably cheapest of 2 that end within 24 h: 87 % sure; another saves at most USD 0.92 in 9 of 10
cases.
Fastest: H100, 2.5 h [1.7–3.6 h], USD 7.50; worth it if an hour of waiting costs you USD 0.15.
Cheaper with more time: this machine, 3.5 days, USD 2.50 (--deadline 4d).

  device        memory, GB       300 million images               USD  source
▶ L40S                             8.3 h [5.7–12 h]  6.67 [4.55–9.76]  forecast
  this machine              3.5 days [3.4–3.5 days]  2.50 [2.47–2.53]  over 24 h
  T4                                 33 h [23–48 h]  5.00 [3.46–7.23]  over 24 h
  H100                            2.5 h [1.7–3.6 h]    7.50 [5.16–11]  forecast
  T4, free                           33 h [23–48 h]                 0  a session ends after 12 h

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
Cheaper where it may be taken away at any moment: H100, 2.6 h, USD 2.02 (--spot).
""",
    "an hour": """\
net · 300 million images · batch 100 · float32 here, mixed 16 bits elsewhere

Rent an H100 (Cloud): 2.5 h [1.7–3.6 h] instead of 3.5 days here, USD 7.50 [5.16–11].
Fastest of 3; none ends within 60 min; that is sure.
Cheaper with more time: this machine, 3.5 days, USD 2.50 (--deadline 4d).
Avoid L4: USD 24, and slower than H100.

  device        memory, GB  × here       300 million images               USD  source
▶ H100                          33        2.5 h [1.7–3.6 h]    7.50 [5.16–11]  forecast
  L4                           3.3           34 h [30–40 h]        24 [21–28]  forecast
  this machine                   1  3.5 days [3.4–3.5 days]  2.50 [2.47–2.53]  measured, disturbed

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
The CPU limits L4: a faster device changes nothing.
this machine contradicts its forecast: measured is 10 times as long; trust that.
Other programs disturbed the measurement here: measure again when it is quiet.
Starting takes 7 min: prices include it, times show it as +.
Not included: loading data, validation.
Several GPUs may end in time: --gpus 2,4.
""",
    "a spot machine": """\
net · 300 million images · batch 100 · float32 here, mixed 16 bits elsewhere

Rent a spot H100 (Cloud): 2.6 h [1.7–3.7 h] instead of 3.5 days here, USD 2.02 [1.39–2.95].
Cheapest of 3 that end within 24 h; that is sure.
It may be taken away at any moment, 5 % an hour (assumed): save every 14 min. On demand: USD 7.50
(Cloud).

  device        memory, GB  a step  × here       300 million images               USD  source
▶ H100, spot                  3 ms      33        2.6 h [1.7–3.7 h]  2.02 [1.39–2.95]  forecast
  this machine              100 ms       1  3.5 days [3.4–3.5 days]  2.50 [2.47–2.53]  over 24 h
  L40S                       10 ms      10         8.3 h [5.7–12 h]  6.67 [4.55–9.76]  forecast
  H100                        3 ms      33        2.5 h [1.7–3.6 h]    7.50 [5.16–11]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "only free": """\
net · 10 million images · batch 100 · mixed 16 bits

Use a free T4 (Colab): 67 min [46–96 min], USD 0.
It is the only choice.
Free devices are not guaranteed; a session lasts up to 12 h.

  device    memory, GB  a step  × pick    10 million images               USD  source
▶ T4, free               40 ms       1   67 min [46–96 min]                 0  forecast
  H100                    3 ms      13  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  is not free

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "tight": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent a T4 (Cloud): 67 min [46–96 min], USD 0.17 [0.12–0.24].
Cheapest of 3 that end within 24 h; that is sure.
Fastest: H100, 5 min [3.4–7.3 min], USD 0.25; worth it if an hour of waiting costs you USD 0.15.
Memory is tight there: 15 of 15 GB. If it does not fit: L40S, 17 min, USD 0.22.

  device       memory, GB  a step  × pick    10 million images               USD  source
▶ T4      tight: 15 of 15   40 ms       1   67 min [46–96 min]  0.17 [0.12–0.24]  forecast
  L40S                      10 ms       4   17 min [11–24 min]  0.22 [0.15–0.33]  forecast
  H100                       3 ms      13  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "too small": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent an H100 (Cloud): 5 min [3.4–7.3 min], USD 0.25 [0.17–0.36].
It is the only choice.

  device     memory, GB  a step    10 million images               USD  source
▶ H100         1 of 200    3 ms  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast
  L40S    no: 140 of 80       –                    –                 –  does not fit

Memory, GB: weights 32, gradients 32, optimiser 64, activations 9, CUDA's context 0.9.
L40S is too small (80 GB). What to change: LoRA 34 GB (0.44 times the time); QLoRA 23 GB (0.48 times
the time); 4 GPUs (--gpus 4).
In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "nowhere": """\
net · 10 million images · batch 100 · mixed 16 bits

net fits none of these devices: it needs 140 GB, L40S has 80; with LoRA 34 GB.
Memory, GB: weights 32, gradients 32, optimiser 64, activations 9, buffers and fragments 3, CUDA's
context 0.9.
L40S is too small (80 GB). What to change: LoRA 34 GB (0.44 times the time); QLoRA 23 GB (0.48 times
the time); 4 GPUs (--gpus 4).

  device     memory, GB  a step  10 million images  USD  source
  L40S    no: 140 of 80       –                  –    –  does not fit

""",
    "too small here": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent an H100 (Cloud): 5 min [3.4–7.3 min]; here it does not fit, USD 0.25 [0.17–0.36].
It is the only choice.

  device          memory, GB  a step    10 million images               USD  source
▶ H100                          3 ms  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast
  this machine  no: 30 of 25       –                    –                 –  does not fit

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "estimated here": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent an H100 (Cloud): 5 min [3.4–7.3 min] instead of years here, USD 0.25 [0.17–0.36].
The only one of 2 that ends within 24 h; that is sure.

  device        memory, GB        a step   × here    10 million images               USD  source
▶ H100                              3 ms  300,000  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast
  this machine     1 of 25  about 20 min        1                years         about 450  over 24 h

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
About 20 min a step here, not measured.
Not included: loading data, validation.
""",
    "not here": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent an H100 (Cloud): 5 min [3.4–7.3 min]; here it has no time, USD 0.25 [0.17–0.36].
It is the only choice.

  device        memory, GB  a step    10 million images               USD  source
▶ H100                        3 ms  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast
  this machine                   –                    –                 –  4-bit weights need a GPU

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "nobody rents it": """\
net · 10 million images · batch 100 · mixed 16 bits

Use an RTX 2080 Ti: 17 min [11–25 min], no price known.
It is the only choice.

  device       memory, GB  a step   10 million images  USD  source
▶ RTX 2080 Ti               10 ms  17 min [11–25 min]    –  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "a pipeline": """\
net · 10 million images · batch 100 · float32 here, mixed 16 bits elsewhere

Rent an L40S (Cloud): 17 min [12–24 min] instead of 14 h here, USD 0.22 [0.15–0.33].
Probably fastest of 4: 86 % sure; another saves at most 16 min in 9 of 10 cases.
Your pipeline gives 2,000 images/s a core, 400 with no worker process as written; H100, with about
12 cores (6 to 16) in its machine, would wait 28 % of the time; 17 would feed it.

  device        memory, GB  a step  × here     10 million images               USD  source
▶ L40S                       10 ms      50    17 min [12–24 min]  0.22 [0.15–0.33]  forecast
  H100                        3 ms     170  7.3 min [4.9–12 min]  0.37 [0.25–0.60]  forecast
  T4                         40 ms      12    67 min [46–96 min]  0.17 [0.12–0.24]  forecast
  this machine              500 ms       1                  14 h  0.42 [0.41–0.42]  measured

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: validation.
""",
    "notes": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent an L40S (Cloud): 17 min [11–24 min], USD 0.22 [0.15–0.33].
The choice hardly matters: none of 2 differs by more than 15 min and USD 0.05.

  device  memory, GB  a step  × pick    10 million images               USD  source
▶ L40S                 10 ms       1   17 min [11–24 min]  0.22 [0.15–0.33]  forecast
  H100                  3 ms     3.3  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast

Lengths vary.
Note on H100: channels last: as channels first.
In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "generation": """\
net · 10 million images · batch 100 · float32 here, mixed 16 bits elsewhere

Use this machine: 2.8 h [2.7–2.8 h], USD 0.08 of electricity.
Cheapest of 2 that end within 24 h; that is sure.
Fastest: H100, 5 min [3.4–7.3 min], USD 0.25; worth it if an hour of waiting costs you USD 0.07.

  device        memory, GB  a token  × here    10 million images               USD  source
▶ this machine               100 ms       1    2.8 h [2.7–2.8 h]              0.08  measured
  H100                         3 ms      33  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
""",
    "predictions": """\
net · predictions of 10 million images · batch 100 · float32 here, mixed 16 bits by torch.compile
elsewhere

Use this machine: 2.8 h [2.7–2.8 h], USD 0.08 of electricity.
Cheapest of 2 that end within 24 h; that is sure.
Fastest: H100, 5 min [3.4–7.3 min], USD 0.25; worth it if an hour of waiting costs you USD 0.07.

  device        memory, GB  a step  × here    10 million images               USD  source
▶ this machine              100 ms       1    2.8 h [2.7–2.8 h]              0.08  measured
  H100                        3 ms      33  5 min [3.4–7.3 min]  0.25 [0.17–0.37]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
""",
    "an operation": """\
net · 10 million products · N 100 · float32 here, mixed 16 bits elsewhere

Use this machine: 1,000 products a second at USD 0.03 an hour; 10 million products: 2.8 h [2.7–2.8
h], USD 0.08.
Cheapest of 2; that is sure.
Fastest: H100, 5 min [3.4–7.3 min], USD 0.25; worth it if an hour of waiting costs you USD 0.07.

  device        memory, GB  a step  × here  10 million products               USD  source
▶ this machine              100 ms       1    2.8 h [2.7–2.8 h]              0.08  measured
  H100                        3 ms      33  5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
""",
    "several": """\
net · 300 million images · batch 100 · mixed 16 bits

Rent 8 × H100 (Cloud): 2.5 h [1.7–3.7 h], USD 7.50 [5.13–11].
It is the only choice.

  device    memory, GB  a step  300 million images             USD  source
▶ 8 × H100                3 ms   2.5 h [1.7–3.7 h]  7.50 [5.13–11]  forecast

Too small: H100.
Memory, GB: weights 32, gradients 32, optimiser 64, activations 9, buffers and fragments 3, CUDA's
context 0.9.
H100 is too small (80 GB). What to change: LoRA 34 GB (0.44 times the time); QLoRA 23 GB (0.48 times
the time); 4 GPUs (--gpus 4).
In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
    "what settles it": """\
net · 3 billion images · batch 100 · mixed 16 bits

Rent an A100 (Cloud): 3.5 days [1.8–6.6 days], USD 83 [44–157].
Probably cheapest of 2 that end within years: 56 % sure; another saves at most USD 58 in 9 of 10
cases.
Or L40S: costs USD 88.

  device  memory, GB  a step  × pick         3 billion images          USD  source
▶ A100                 10 ms       1  3.5 days [1.8–6.6 days]  83 [44–157]  forecast
  L40S                 10 ms    0.95    3.6 days [2–6.7 days]  88 [47–162]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
What would settle it: whichdevice rent net.py --on A100 --max-usd 1 --batch 100 --precision mixed_float16
""",
    "buying": """\
net · 30 billion images · batch 100 · mixed 16 bits

Rent an RTX 3090 (Cloud): 140 days [95–200 days], USD 500 [342–731].
It is the only choice.

  device    memory, GB  a step       30 billion images            USD  source
▶ RTX 3090               40 ms  140 days [95–200 days]  500 [342–731]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
To buy one (about USD 1,500) is cheaper from 17,000 h of use on.
""",
    "minutes": """\
net · 1 million images · batch 100 · mixed 16 bits

Use a free T4 (Colab): 6.7 min [4.6–9.6 min] after 60 s [36–100 s] to start, USD 0.
Cheapest of 3 that end within 24 h; that is sure.
Free devices are not guaranteed; a session lasts up to 12 h. Paid: T4, 6.7 min + 7 min, USD 0.04
(Cloud).

  device    memory, GB  a step  × pick               1 million images               USD  source
▶ T4, free               40 ms       1   6.7 min [4.6–9.6 min] + 60 s                 0  forecast
  T4                     40 ms       1  6.7 min [4.6–9.6 min] + 7 min  0.04 [0.03–0.05]  forecast
  H100                    3 ms      13         30 s [21–44 s] + 7 min  0.38 [0.24–0.61]  forecast

In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Starting takes 7 min [4.2–12 min], on a free machine 60 s [36–100 s]: prices include it, times show
it as +.
Not included: loading data, validation.
""",
    "no forecast": """\
net · 10 million images · batch 100 · mixed 16 bits

Rent an L40S (Cloud): 17 min [11–24 min], USD 0.22 [0.15–0.33].
The choice hardly matters: none of 2 differs by more than 15 min and USD 0.05.

  device   memory, GB    10 million images               USD  source
▶ L40S                  17 min [11–24 min]  0.22 [0.15–0.33]  forecast
  H100                 5 min [3.4–7.3 min]  0.25 [0.17–0.36]  forecast
  TPU v5e                                –                 –  no forecast of PyTorch
  TPU v6e                                –                 –  the program has an operation that no …

TPU v6e: the program has an operation that no time is known of: custom-call. RX 6800, RX 6900 and RX
7900: no compiler.
In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.
Not included: loading data, validation.
""",
}


@pytest.mark.parametrize(("name", "wants", "rows", "more"), SITUATIONS, ids=[one[0] for one in SITUATIONS])
def test_a_printed_answer(name, wants, rows, more) -> None:
    assert "\n".join(text(asked(wants, rows, more))) + "\n" == PRINTED[name]


@pytest.mark.parametrize(
    ("rows", "column"),
    [((here(), FAST, UNRENTED), ["× here", "1", "33", "10"]), ((CHEAP, FAST, SMALL), ["× pick", "1", "13", "–"])],
)
def test_a_column_says_how_many_times_as_fast_each_is(rows, column) -> None:
    found = asked({}, rows, {})
    assert [head(found)[SPEED], *(row[SPEED] for _, row in cells(found))] == column
    assert column[0] in "\n".join(text(found, 120)) and column[0] not in "\n".join(text(found, 60))
