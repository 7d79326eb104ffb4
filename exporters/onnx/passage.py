"""A text to see by what a precision costs, where a model comes with a tokenizer: prose, figures, a list, some code, a letter."""

TEXT = """\
The lighthouse keeper had two clocks. One stood on the shelf above the stove and kept the time of the town; the other hung in the
lamp room and kept the time of the sea. They never agreed for long. In winter, when the oil grew thick, the clock upstairs fell
behind by as much as eleven minutes a day, and the keeper would climb the 214 steps after breakfast to set it right. "A ship does
not ask whether a clock is cold," he used to say to his daughter, who had come to do the accounts and stayed for nineteen years.

In 1887 the harbour received 1,204 vessels, of which 963 carried grain, 148 carried timber and the remaining 93 carried coal or
nothing at all. The average cargo weighed 310 tonnes. If every crate of salt holds 25 kilograms, how many crates fill a ship of
310 tonnes? Divide 310,000 by 25: the answer is 12,400.

What you need for the soup:
- three onions, a leek and two carrots
- a litre and a half of water
- salt, pepper, bay leaves

Chop the onions finely and let them soften in butter over a low heat before anything else goes into the pot.

def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)

Dear Margaret, thank you for the photographs. The garden looks splendid, and I was glad that the apple tree survived the storm.
We shall arrive on Thursday evening, unless the trains are late again, in which case please do not wait with dinner. Yours, Thomas.
"""
