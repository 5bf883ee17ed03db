"""Natural texts in several scripts, written for these tests, to measure how well drafted text continues in another vocabulary."""

from __future__ import annotations

PROSE = """\
The ferry left at seven, half an hour late, and nobody on the quay seemed to mind. Old Marten had brought two crates of pears, a bicycle \
without a front wheel and, wrapped in a wet towel, a fish he wouldn't discuss. "You'll want to stand on the other side," he told me; "the wind's \
from the north-west." I didn't move. By the time we passed the lighthouse the sky had turned the colour of slate, and the captain -- a thin, \
patient man who had once taught arithmetic -- was explaining to a child why 7 times 8 is 56 and not 54. We arrived unhurt, unwashed and \
extraordinarily hungry.

On the following morning there was fog. Three of us walked up to the chapel; the fourth, who'd slept badly, stayed behind to repair the stove."""
CODE = '''\
from collections import Counter


class Ledger:
    """Amounts by account; nothing is ever negative."""

    def __init__(self, limit=10_000):
        self.limit = limit
        self.rows = []

    def add(self, account: str, amount: float) -> None:
        if amount < 0 or len(self.rows) >= self.limit:
            raise ValueError(f"bad amount {amount!r} for {account}")
        self.rows.append((account, amount))

    def totals(self):
        sums = Counter()
        for account, amount in self.rows:
            sums[account] += amount  # see also: rows_of()
        return {k: round(v, 2) for k, v in sums.items() if v != 0.0}


if __name__ == "__main__":
\tledger = Ledger()
\tledger.add("rent", 1250.50)
\tprint(ledger.totals(), sep="\\n")
'''
GERMAN = """\
Die Fähre fuhr um sieben ab, eine halbe Stunde zu spät, und niemand am Ufer schien sich darüber zu ärgern. „Stellen Sie sich lieber auf die andere \
Seite“, sagte er, „der Wind kommt aus Nordwesten.“ Später erklärte der Kapitän, warum größere Brücken im Winter kürzer werden."""
FRENCH = """\
Le bac est parti à sept heures, avec une demi-heure de retard, et personne sur le quai n'avait l'air de s'en soucier. « Mettez-vous plutôt de \
l'autre côté », m'a-t-il dit ; « le vent vient du nord-ouest. » Nous sommes arrivés sains et saufs, mais affamés."""
RUSSIAN = """\
Паром отошёл в семь часов, с опозданием на полчаса, и никого на причале это не огорчило. Старик привёз два ящика груш, велосипед без переднего \
колеса и рыбу, о которой не хотел говорить. На следующее утро был туман."""
CHINESE = """\
渡船七点钟才开，晚了半个小时，码头上却没有人在意。老人带来了两箱梨、一辆没有前轮的自行车，还有一条用湿毛巾包着的鱼。第二天早上有雾，我们三个人走到山上的小教堂，第四个人留下来修炉子。"""
JAPANESE = """\
渡し船は三十分遅れて七時に出た。岸壁では誰も気にしていないようだった。老人は梨を二箱と、前輪のない自転車と、濡れたタオルに包んだ魚を持ってきた。翌朝は霧が深く、私たち三人は礼拝堂まで歩いた。"""
KOREAN = """\
나룻배는 삼십 분 늦게 일곱 시에 떠났지만 부두에 있던 사람들은 아무도 신경 쓰지 않았다. 노인은 배 두 상자와 앞바퀴가 없는 자전거를 가져왔다. 다음 날 아침에는 안개가 짙었다."""
ARABIC = """\
غادرت العبّارة في السابعة، متأخرة نصف ساعة، ولم يبدُ أن أحداً على الرصيف يهتم بذلك. أحضر الشيخ صندوقين من الكمثرى ودراجة بلا عجلة أمامية. وفي صباح \
اليوم التالي كان هناك ضباب كثيف."""
HINDI = """\
नाव सात बजे चली, आधा घंटा देर से, और घाट पर किसी को इसकी परवाह नहीं थी। बूढ़ा आदमी नाशपाती की दो पेटियाँ और बिना अगले पहिये की एक साइकिल लाया था। अगली सुबह कोहरा था।"""
THAI = """\
เรือข้ามฟากออกเวลาเจ็ดโมง สายไปครึ่งชั่วโมง แต่ไม่มีใครบนท่าเรือสนใจ ชายชรานำลูกแพร์มาสองลังกับจักรยานที่ไม่มีล้อหน้า เช้าวันรุ่งขึ้นมีหมอกหนา"""
MIXED = """\
Release notes 2.4.1 (2026-03-17): naïve café menus 🍐🚲 now load in 0.8 s; see https://example.org/docs?id=42&lang=日本語#top. 👍🏽 Thanks to all 👩‍👩‍👧 who \
tested!  Known issues:   “smart quotes”, ½ cups, 100 000 rows, e-mail addresses like a.b+c@example.org, and Ελληνικά / עברית in titles…"""

TEXTS = {
    "prose": PROSE,
    "code": CODE,
    "German": GERMAN,
    "French": FRENCH,
    "Russian": RUSSIAN,
    "Chinese": CHINESE,
    "Japanese": JAPANESE,
    "Korean": KOREAN,
    "Arabic": ARABIC,
    "Hindi": HINDI,
    "Thai": THAI,
    "mixed": MIXED,
}
