"""English function words, for the `stop word` indicator of ``vectors``."""

from __future__ import annotations

_ARTICLES_AND_DETERMINERS = """
a an the this that these those each every either neither some any no all both several such another
other many much few more most less own same
"""

_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself
she her hers herself it its itself they them their theirs themselves who whom whose which what
"""

_PREPOSITIONS = """
of in on at by for from to with without within into onto upon over under above below between among
through during before after since until till about against around across along behind beside beyond
off out up down toward towards as than
"""

_CONJUNCTIONS = """
and or but nor so yet if because while although though unless whether whereas
"""

_AUXILIARIES = """
be am is are was were been being have has had having do does did doing will would shall should can
could may might must ought n't 's 're 've 'll 'd 'm not
"""

_ADVERBS = """
here there where when why how then now again once also too very just only
"""

STOP_WORDS = frozenset(
    " ".join((_ARTICLES_AND_DETERMINERS, _PRONOUNS, _PREPOSITIONS, _CONJUNCTIONS, _AUXILIARIES, _ADVERBS)).split()
)
