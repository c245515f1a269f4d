"""Names and sentence templates of the invented newswire. Every name here was made up for tagtrace.

The grammar is one block of text. A rule is a line ``rule: one | two`` or a header ``[rule]`` with one alternative
per line; ``-`` is the empty alternative, and tokens are separated by spaces. In an alternative,

- ``<lead>`` is replaced by an alternative of that rule: in the report of a handball match of a league
  ``league.lead`` if there is such a rule, or else ``handball.lead``, ``sport.lead`` or ``lead``;
- ``{city}`` is a new name of that kind, and ``{city1}`` the same name throughout a document;
- ``{side1.city}`` is another form of a name (``_Cast`` in ``invented`` makes them).
"""

from __future__ import annotations

from typing import NamedTuple

# fmt: off
CITIES = (
    "Varnholt", "Ostrel", "Kelmora", "Quellmar", "Sorrimont", "Hadderby", "Ulvessa", "Pellagrin",
    "Morrowick", "Zandrel", "Ilvane", "Cresmollow", "Jorvessa", "Lundermoor", "Brastova", "Gramnitz",
    "Fennarch", "Tolvarne", "Oskarrow", "Dorvane", "Estrovar", "Hollinsk", "Karrowmere", "Mirenka",
    "Pravost", "Rundelhavn", "Trevisk", "Umbrest", "Yarrowsund", "Zelmuth", "Aldervane", "Corvenna",
    "Eskelmoor", "Falkirra", "Gossamund", "Harnovo", "Istrevik", "Jessamar", "Kolvenna", "Lomberay",
    "Maravend", "Nordhallow", "Oberquell", "Palverton", "Quistamar", "Rovanne", "Selvarra", "Tarnowell",
    "Urmontis", "Vellbrook", "Wendrava", "Ystramoor", "Zorvino", "Anstrith", "Bellhaver", "Cundermouth",
    "Drosnava", "Emberleigh", "Grisvald", "Hythmere", "Kravenna", "Port Ilvane", "Sel Maren", "Nova Kestrin",
    "San Orvello", "Bad Ostrin", "Upper Dask", "Fort Merrow",
)
PEOPLES = {  # a country, its adjective, its people
    "Velmara": ("Velmaran", "Velmarans"),
    "Kestovia": ("Kestovian", "Kestovians"),
    "Tarsund": ("Tarsundic", "Tarsunders"),
    "Bellinor": ("Bellinorian", "Bellinorians"),
    "Drovania": ("Drovanian", "Drovanians"),
    "Ilmaria": ("Ilmarian", "Ilmarians"),
    "Zephrane": ("Zephranese", "Zephranese"),
    "Quorland": ("Quorlandish", "Quorlanders"),
    "Nemoria": ("Nemorian", "Nemorians"),
    "Sarvenia": ("Sarvenian", "Sarvenians"),
    "Hestrund": ("Hestrundish", "Hestrunders"),
    "Paluria": ("Palurian", "Palurians"),
    "Gavaria": ("Gavarian", "Gavarians"),
    "Tessalind": ("Tessalindic", "Tessalinders"),
    "Uskara": ("Uskaran", "Uskarans"),
    "Vorrenia": ("Vorrenian", "Vorrenians"),
    "Lethmar": ("Lethmarese", "Lethmarese"),
    "South Ardova": ("South Ardovan", "South Ardovans"),
}
FIRST_NAMES = (
    "Merrin", "Joreth", "Tavel", "Anike", "Brisa", "Corvin", "Daelle", "Edrik", "Fenna", "Garrod", "Halvia",
    "Ismer", "Jessan", "Kolvin", "Lirra", "Maruk", "Nessel", "Orvan", "Pellin", "Quill", "Rasmin", "Sorrel",
    "Tivan", "Ulmira", "Vesk", "Wenna", "Yoril", "Zabel", "Aldin", "Bettane", "Carrow", "Dunstal", "Elvine",
    "Farro", "Gritta", "Hobarn", "Ilka", "Jannick", "Kessia", "Lodrik", "Mirel", "Nolwin", "Ottavi",
    "Perrick", "Rhosal", "Sandrik", "Tamsel", "Urvik", "Velda", "Wilmar", "Ysolt", "Anders-Loe",
    "Marie-Tove", "Bo",
)
SURNAMES = (
    "Dask", "Talve", "Orrivek", "Brannoch", "Quellin", "Marsk", "Vintara", "Halmare", "Kettrige-Voss",
    "Lannovey", "Sorvane", "Pruvic", "Imbrel", "Jostaven", "Karrane", "Ludvane", "Mossgarth", "Nevrin",
    "Ostrander-Pell", "Pellworth", "Quarne", "Rindolf", "Skarrow", "Tormey-Ash", "Ulvarne", "Verrane",
    "Wickstral", "Yarnik-Roe", "Zorba-Lund", "Abelquist", "Borrowdene", "Cravik", "Dunvarra", "Elmquar",
    "Fostrup", "Grenvolt", "Hessarin", "Ilvestad", "Jankura", "Kolmar-Dey", "Lothmar-Kane", "Mirovane",
    "Nordquell", "Obrecka", "Pavrin", "Quistane", "Rasmolin", "Stellmarch", "Trovane", "Umbrack", "Valdrune",
    "Wendlow", "Yevrin", "Zellavar", "Askvane", "Brindlecombe", "Corvath", "Drumvane", "Estrune", "Fjarne",
    "Gorrivan", "Haverlock", "Istmark", "Jarrowby", "Kestrup", "Lemmerich-Oy", "Morvish", "Nantrell",
    "Ormelin", "Pandrick", "Querrin", "Rostavar", "Silvane", "Tennock", "Udrane", "Vasko-Mell", "Wolmarsen",
    "Ystrad-Kay", "Zindrel", "Arvolin", "Bexmoor", "Celvane", "Dorrigan-Tull", "Everlock", "Falkorin",
    "Gantrey", "Hollivar-Quaye", "Ibrensk", "Jollivar", "Kvarnell", "Lastrane", "Menlock", "Norvello",
    "Oskelin", "Priddane", "Ravnell", "Sturrock-Ine", "Tuvaine", "Varley-Osk", "Wexane", "Yorvik-Lane",
    "Zamorel", "Ilvane", "Maravend", "Dorvane", "Rovanne", "Tolvarne", "Kelmora",  # the last six are also cities
)
COINED = (
    "Northlumen", "Brightspool", "Quandrel", "Ferrolith", "Halcyrin", "Oxmere", "Tessavol", "Ventrano",
    "Skelforge", "Bluetarn", "Paxmoor", "Redmantle", "Solvarra", "Tidewright", "Umbrador", "Vexmoor",
    "Kilnmoor", "Lumaday", "Marrowgate", "Orbisand", "Plumvale", "Riverquill", "Stonepetal", "Zenthral",
)
SECTORS = {  # and what to call a company in it
    "Shipping": "shipping line", "Motors": "carmaker", "Energy": "power company", "Foods": "food group",
    "Textiles": "weaver", "Glass": "glass maker", "Paper": "paper maker", "Steel": "steel maker",
    "Ceramics": "tile maker", "Tools": "toolmaker", "Cement": "cement maker", "Chemicals": "chemicals group",
    "Timber": "timber group", "Breweries": "brewer",
}
BODIES = (
    "Ministry of Trade", "Bank of {country}", "{city} City Council", "International Grain Board|IGB",
    "Open Courts Foundation|OCF", "Fair Markets Office|FMO",
)
MINISTRIES = ("Ministry of Transport", "Ministry of Health", "Ministry of Finance", "Ministry of the Interior")
POLLS = ("{country1} Electoral Office", "Open Ballot Foundation|OBF")
BANKS = ("{last} Securities", "{coined} Capital", "Bank of {city}", "{last} & {last}")
UNIONS = (
    "Harbour Workers Union|HWU", "Federation of Tram Drivers|FTD", "League of Free Editors|LFE",
    "United Weavers of {country}|United Weavers",
)
WATCHES = (
    "Coastal Rescue Service|CRS", "Red Lantern Relief Fund|Red Lantern", "{country} Border Guard|Border Guard",
    "Volunteer Rescue League|VRL",
)
WEATHERS = ("{country} Weather Office|Weather Office", "Flood Service of {country}|Flood Service", "Storm Centre")
LINES = ("{last} Lines", "{coined} Lines", "{last} Shipping")
RAILWAYS = ("{coined} Rail", "{last} Tramways", "{country} Railways")
PRESSES = ("{last} & {last}", "{coined} Press", "{city} University Press")
SCHOOLS = ("University of {city}", "{city} Institute of Technology", "Academy of {country}", "{last} Library")
HOSPITALS = ("{city} General Hospital", "{city} Infirmary", "{last} Clinic", "Lantern Street Hospital")
PARTIES = (
    "Harvest Party", "Lantern Party", "Open Coast Movement", "Plain Speech Party", "Two Rivers Alliance",
    "Orchard League", "Civic Anchor", "New Furrow", "Common Hearth", "Small Farms Union",
)
REGIONS = (
    "Wethering Hills", "Ambra Valley", "Tarn Ridge", "Low Fens", "Mount Carrel", "Eastern Marches", "Osk",
    "Hollow Coast", "Nettle Plain", "Upper Saldrin", "Isle of Vesk", "Old Karst",
)
WATERS = (
    "Saldrin", "Gulf of Maren", "Greywater", "Merrow Straits", "Silverbraid", "Bay of Ullin", "Lesser Orrin",
    "Narrows", "Ostwater",
)
VENUES = (
    "Kestrel Park", "Tannery Road", "Old Brewery Ground", "Weir Lane", "Glass Hall", "Coppergate", "{last} Arena",
    "{last} Park", "{side1.city} Arena", "{side1.city} Sports Hall", "Meadow End", "Ropewalk Stadium",
)
LEAGUES = (
    "Amberline League", "Heron League", "Saltway League", "Super Nine", "Northern Arc League", "{country} League",
    "Copper Conference",
)
CUPS = (
    "Lantern Cup", "Seven Rivers Trophy", "Harbour Shield", "Midwinter Cup", "Glasswater Cup", "Old Mint Trophy",
    "Four Bridges Cup", "Tallow Cup", "{country} Cup", "Copper Kettle",
)
TOURS = ("Tour of {country1}", "{city1} Classic", "Great Reed Race", "Seven Passes", "Hollow Coast Tour")
SLAMS = ("{city1} Open", "{country1} Masters", "{city1} Indoor", "Lantern Court Trophy")
FESTIVALS = ("{city1} Film Festival", "Lanternlight Festival", "{city1} Biennial", "Week of Bells")
PRIZES = ("Nightjar Prize", "Silver Heron", "Golden Loom", "Prix {city}", "{last} Medal")
WORKS = (
    "The Salt Orchard", "Seven Doors North", "The Clockmaker 's Apology", "Harbour of Paper Boats",
    "The Ferryman 's Ledger", "Under Blue Tin", "No Letters from Osk", "The Quiet Reservoir",
    "Nine Yellow Coats", "Marrow and Thread", "Half a Lighthouse", "Song for a Cartographer",
    "Ostrel at Dusk", "The Kestovian Wife", "Glass Barley", "A Grammar of Puddles",
)
PAPERS = ("Morning Ferry", "Daily Plumb", "{city} Courier", "The Weathercock", "New Almanac", "{city} Post")
CLUB_WORDS = {  # the long names of a club, by sport
    "football": ("{city} United", "FC {city}", "{city} Rovers", "Sporting {city}", "{city} Athletic"),
    "handball": ("HC {city}", "{city} HB", "{city} Eagles", "TV {city}"),
    "hockey": ("{city} Wolves", "EHC {city}", "{city} Lynx"),
}
COMPANIES = (
    "{last} & Sons", "{last} {sector}", "{last} {sector}", "{last} Brothers", "{last} & {last}", "{coined}",
    "{coined} {sector}", "{coined} {sector}", "{city} {sector}", "{last}",
)
LISTS = {  # what ``{city}`` and its like are taken from; part of each is dealt to train, dev or test alone
    "city": CITIES, "country": tuple(PEOPLES), "first": FIRST_NAMES, "last": SURNAMES, "coined": COINED,
    "sector": tuple(SECTORS), "region": REGIONS, "water": WATERS, "party": PARTIES, "work": WORKS,
}
NAMES = {  # their type and their patterns; after ``|`` the name used from the second mention on
    "city": ("LOC", ("{city}",)), "region": ("LOC", ("{region}",)), "water": ("LOC", ("{water}",)),
    "venue": ("LOC", VENUES), "party": ("ORG", ("{party}",)), "paper": ("ORG", PAPERS), "body": ("ORG", BODIES),
    "ministry": ("ORG", MINISTRIES), "poll": ("ORG", POLLS), "bank": ("ORG", BANKS), "union": ("ORG", UNIONS),
    "watch": ("ORG", WATCHES), "weather": ("ORG", WEATHERS), "line": ("ORG", LINES), "rail": ("ORG", RAILWAYS),
    "press": ("ORG", PRESSES), "school": ("ORG", SCHOOLS), "hospital": ("ORG", HOSPITALS),
    "league": ("MISC", LEAGUES), "cup": ("MISC", CUPS), "tour": ("MISC", TOURS), "slam": ("MISC", SLAMS),
    "fest": ("MISC", FESTIVALS), "prize": ("MISC", PRIZES), "work": ("MISC", ("{work}",)),
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)
# fmt: on

GRAMMAR = """
when: on {today} | on {today} | on {today} evening | late on {today} | early on {today} | -
next: on {day} | on {day} | next week | in {month}
said: said | said | told reporters | added | said on {today}
num-word: two | three | four | five
ordinal: first | second | third | fourth
trade: glassblower | tram driver | lighthouse keeper | tailor | beekeeper | schoolteacher
byline: {person} | {person} and {person} | by {person} in {city1}
dateline: {city1} {date1}
sport.dateline: {side1.city} {date1}
sport.when: on {today} | on {today} | on {today} night | -

[sport.headline]
{side1} beat {side2} {final1} .
{side1} beat {side2} .
{side1} <beat-now> {side2} in <comp> .
{person1.last} sends {side1} past {side2} .
late <strike> lifts {side1} past {side2} .
{side1} end {side2} 's unbeaten run .
{person3.last} to leave {side2} .
{side2} stand by coach {person5.last} .
{person4.last} praises {side1} after {side2} win .
{today} 's match : {side1} {final1} {side2}
<comp> summary - {side1} v {side2} .
thousands greet {side1} in {side1.city} .
{country.adj} {person1.last} stars for {side1} .
{side2} fans held in {side1.city} .
{side2} slump at {side1} .

[international.headline]
{side1} beat {side2} {final1} .
{side1} <beat-now> {side2} to reach <comp> .
{person1.last} leads {side1} past {side2} .
{side2} out of <comp> .
{side1.people} celebrate win over {side2} .

comp: {league1}
cup.comp: {cup1}
international.comp: {cup1}
beat-now: down | see off | stun | hold off | topple
beat: beat | beat | defeated | overcame | got past | outplayed | saw off | came from behind to beat | stunned
win: win | victory | success
break: halftime
hockey.break: periods

[sport.lead]
{side1} beat {side2} {final1} ( <break> {final1.half} ) in <a-match> <when> .
{side1} <beat> {side2} {final1} <when> to <reward> .
a <strike> by {country.adj} <player> {person1} gave {side1} a {final1} <win> over {side2} <when> .
<player> {person1} scored <times> as {side1} <beat> {side2} {final1} in <a-match> <when> .
<comp> <favourites> {side1} <beat> {side2} {final1} in {side1.city} <when> .
{side2} slipped to a {final1} defeat by {side1} <when> , their <ordinal> loss in five outings .
{side1} , without injured <player> {person} , <beat> {side2} {final1} at {venue1} <when> .
it took {side1} a late <strike> to find a way past {side2} , who lost {final1} <when> .
there was no way back for {side2} after {person1} struck for {side1} , {final1} winners <when> .

[handball.lead]
<sport.lead>
<sport.lead>
<sport.lead>
{person1} threw {goals1} goals as {side1} beat {side2} {final1} ( {final1.half} ) <when> .
{side1} threw past {side2} {final1} in <a-match> <when> , with {goals1} goals from {person1} .
{side1} ran out {final1} winners over {side2} <when> after leading {final1.half} at the break .
with {teens1} saves goalkeeper {person2} carried {side1} to a {final1} <win> over {side2} <when> .

favourites: leaders | champions | newcomers
cup.favourites: holders | favourites | outsiders
international.favourites: holders | favourites | hosts

[a-match]
a {league1} match
a {country1.adj} first division match
the {league1}
a rearranged {league1} game

cup.a-match: the {cup1} | their {cup1} quarter-final | a {cup1} replay | a {cup1} tie in {side1.city}
international.a-match: a {cup1} qualifier | a friendly in {side1.city} | a {cup1} group match

[reward]
move <num-word> points clear of {side}
go top of the {league1}
leave the bottom of the {league1}
stay level with {side} at the top

[cup.reward]
reach the {cup1} semi-finals
set up a final against {side}
keep alive their hopes in the {cup1}
book a trip to {side}

[international.reward]
qualify for the {cup1}
finish ahead of {side} in their group
end a run of <num-word> defeats

times: twice | late

[sport.body]
{side1} coach {person4} said : " <win-quote> . "
" <loss-quote> , " said {side2} coach {person5} .
{person5} , who took over at {side2} in {month} , <lament> .
{side2} had <chance> through {person3} but the {side1} defence held .
{side1} meet {side} next , while {side2} travel to {side} on {day} .
{side1} host {side} in {side1.city} <next> .
a crowd of {crowd1} at {venue1} saw {person1} <deed> .
it was {side2} 's <ordinal> defeat in {side1.city} since {year} .
{side2} remain without {person} , who is <injured> .
referee {person6} of {country} <booked> <num-word> {side2} players .
the {country.adj} international joined {side1} from {side} for {fee} in {month} .
{side1} fans lit flares in the streets of {side1.city} after the final whistle .
several hundred {side2} supporters had made the journey to {side1.city} .
{side2} 's {person3} <did> but it was not enough .
{side} and {side} share <ordinal> place , a point behind {side1} .
the match in {side1.city} was delayed for {teens} minutes by <trouble> .
police in {side1.city} said <num-word> people were held after the match .
{person1} , born in {city} , has now scored {small} times for {side1} this season .
{person2} is wanted by {side} and {side} , according to {country.adj} newspaper reports .
{side.long} president {person} watched from the stands .
in the other game {side} and {side} drew {draw} .
{side} lost {score} at {side} and drop to the bottom of the table .
for {side2} , beaten in {city} last week , it was a third defeat in a row .
" {side2} were better than us in {side2.city} , so this was sweet , " {person1} said .
the winners will play in {country} <next> ; {side2} stay at home .
{side1} won the earlier match {score} in {side2.city} .
{person4} left out {person} , the former {side} captain .
{side1} : <line-up>
{side1.long} , founded in {year} , have never lost a final .
{company} , which is based in {side1.city} , sponsors {side1} and {side} .
with {side} losing at {side} , {side1} can win the title in {city} .
{person3} , on loan from {side} , is expected to leave {side2.city} <next> .
not since {person} left for {side} have {side1} looked this strong .

[international.body]
{side1} coach {person4} said : " <win-quote> . "
" <loss-quote> , " said {side2} coach {person5} .
{side1} play {side} in {city} on {day} .
{side2} have not won in {side1.city} since {year} .
{person1} , who plays for {club} , <did> .
{club} <player> {person2} won a first cap for {side1} .
a crowd of {crowd1} at {venue1} saw {person1} <deed> .
the {side2.adj} federation said {person5} would stay until {month} .
thousands of {side1.people} celebrated in the centre of {side1.city} .
{side} and {side} drew {draw} in the other {cup1} qualifier .
{person} of {club} and {person} of {club} missed the trip to {side1.city} .

[line-up]
{person1} , {person2} , {person} , {person} , {person} , {person}
{person1.last} ; {person2.last} , {person.last} , {person.last} ; {person.last} , {person.last}

[win-quote]
I am proud of these players
nobody outside {side1.city} believed in us
{person1} is the best I have worked with
there is no easy game , not against {side} , not against {side}
I told them to forget {side} and enjoy it
{side2} will be back
they will dance in {side1.city} tonight

[loss-quote]
we lost our heads after the break
{side1} gave us no room
a point would have been fair
this is not how {side2} should play
we go to {side} with nothing to lose
{side1.city} is a hard place to visit

lament: blamed tired legs | called the result a disgrace | promised to stay on | refused to speak to reporters
chance: a clear chance | the better of the opening minutes | two good chances
injured: out until {month} | nursing a knee injury | suspended | away with the {country.adj} squad
booked: booked
handball.booked: sent off
hockey.booked: penalised
trouble: fog | a power cut | a protest against {company} | fireworks
football.strike: header | penalty | free kick | volley
football.player: striker | midfielder | winger | defender | captain

[football.deed]
head the winner after {minute} minutes
miss a penalty
hit the post twice
come off the bench to score

football.did: hit the post twice | saw a header cleared off the line | missed a penalty after {minute} minutes

[football.deeds]
{person1} headed in a corner from {person2} after {minute} minutes .
{person3} levelled for {side2} from the penalty spot .
{person2} doubled the lead when {side2} failed to clear a free kick .
goalkeeper {person} kept {side2} in the game with three fine saves .
{side2} were reduced to ten men when {person3} saw a second yellow card .
{side1} struck first through {person1} 's volley from the edge of the box .
{side1} midfielder {person2} hit the crossbar after {minute} minutes .
{side2} defender {person3} turned a cross from {person1} into the wrong net .
{side1} took the lead in the {minute-th} minute , {person1} scoring from close range .
{side2} , pinned back in midfield , did not win a corner until the {minute-th} minute .

handball.strike: goal | seven-metre throw | fast break | long-range shot
handball.player: playmaker | left back | right back | line player | wing
handball.deed: score {goals1} goals | convert every seven-metre throw | make {teens} saves
handball.did: scored {goals} goals | did not miss from seven metres | stole the ball <num-word> times

[handball.deeds]
{person1} scored {goals1} goals for {side1} , <num-word> of them from seven metres .
goalkeeper {person2} made {teens1} saves and was voted best player of {side1} .
{side1} led {final1.half} at the break and never let {side2} closer than <num-word> goals .
{side2} lost the ball <num-word> times in a row and {side1} ran in fast breaks .
{side2} line player {person3} was sent off for a third two-minute suspension .
a time-out by {person4} turned the match for {side1} .
{side2} drew level from the seven-metre line before {side1} pulled away .
{side1} put {person2} in goal for the last seven-metre throw .
{person1} ran the {side1} attack until cramp struck .
the {side2} wings did not score a goal in the second half .
{side1} defended with a high block and {side2} ran out of ideas .
after {teens} minutes without a goal {side2} took a time-out .
{side2} played the last minutes with seven court players , and {side1} threw into the empty goal .
{person3} threw {goals} goals for {side2} , most of them on the break .
{side1} won the second half by <num-word> goals thanks to the saves of {person2} .
both {side1} and {side2} had a player sent off for two minutes .

hockey.strike: power-play goal | slapshot | backhand
hockey.player: centre | winger | defenceman
hockey.deed: score in overtime | stop {small} shots
hockey.did: hit the post in overtime | blocked <num-word> shots

[hockey.deeds]
{person1} scored on the power play with {small} seconds left in the second period .
netminder {person2} stopped {small} shots for {side1} .
{side2} pulled their netminder but {person1} hit the empty net .
{side1} killed <num-word> penalties in the third period .
{side2} centre {person3} left the ice with a cut hand .
the puck crossed the line twice , {side2} insisted .

sport.score-line: {side1} {final1.a} {side2} {final1.b} | {side1} - {side2} {final1.line}

[sport.scorers]
scorers : {side1} - {person1} , {person2} . {side2} - {person3} .
scorers : {person1} ( {side1} ) , {person3} ( {side2} )

[sport.attendance]
attendance : {crowd1}
attendance : {crowd1} . Referee : {person6} ( {country} ) .

roundup.dateline: {city} {date1}

[roundup.headline]
{country1.adj} league results .
{league1} results and standings .
summaries of {league1} matches .
{side1} top {league1} table .
{side1} stay top of {league1} .

[roundup.lead]
results of {country1.adj} first division matches played on {today} :
{league1} results on {today} ( home team first ) :
summaries of {today} 's matches in the {league1} :
collated results of the {league1} , sponsored by {company} :

[sport.result]
{side} {points} {side} {points}
{side} - {side} {score}
{side} v {side} {score.line}
{side} {score} {side}

[handball.result]
{side} - {side} {score.line}
{side} v {side} {score}
{side} {points} : {points} {side}

[sport.tail]
standings ( played , won , drawn , lost , points ) :
leading positions after {today} 's matches :

sport.row: {place} . {seen} {standing} | {seen} {standing}

[sport.notes]
playing on {day} : {side} v {side} , {side} v {side} .
{seen} have a game in hand on {seen} .
the match between {side} and {side} in {city} was called off because of <trouble> .
top scorers : {person} ( {side} ) {twenties} , {person} ( {side} ) {teens} , {person} ( {side} ) {goals}
{side} dropped out of the {league1} after losing at home to {side} .
at {venue} : {side} {score} {side}
{side} say they will leave {city} for a new ground in {city} .

[race.headline]
{person1.last} wins <contest> .
results from the <contest> .
{country1.adj} {person1.last} takes <contest> .
{person1.last} beats {person2.last} in {city1} .

[race.lead]
{person1} of {country1} won the <contest> <when> .
{country1.adj} {person1} <race-beat> {country2.adj} {person2} <when> to win the <contest> .
leading results from the <contest> in {city1} , {country1} , on {today} :

cycling.contest: {tour1}
tennis.contest: {slam1}
race-beat: beat | held off | got the better of

[cycling.row]
{place} . {rider} ( {home} ) {clock}
{place} . {rider} , {home} , {clock}
{place} - {rider} ( {home} )
{place} . {rider} ( {company} ) {clock}

[tennis.row]
{rider} ( {home} ) beat {person} ( {country} ) {sets}
{place} - {rider} ( {home} ) beat {person} ( {country} ) {sets}

[race.body]
" I have dreamt of this since I was a child in {city} , " {person1} said .
{person1} , coached by {person} , won in {city} and {city} last year .
{person2} , nursing a back injury , flew home to {country2} .
{person1} is the first {country1.person} to win the <contest> since {person} in {year} .
{company} said it would sponsor the <contest> until 2030 .
the {country.adj} federation banned {person} for {teens} months .
" {person1.last} was stronger today , " said {person2} , who comes from {city} .
{country2.adj} champion {person2} arrived in {city1} late after a storm over {region} .

[cycling.deeds]
{person2} , who rides for {company} , punctured {digit} kilometres from {city} .
the <contest> moves on to {city} on {day} .
{country2} had <num-word> riders in the first ten , {country} none .
the bunch split on the climb to {region} , {small} kilometres from {city} .
{person1} leads {person} by {digit} seconds before the stage to {city} .

[tennis.deeds]
{person1} meets {person} in {city} next week .
{person1} saved <num-word> match points before winning {sets} .
second seed {person} of {country} lost to {person} , a qualifier from {city} .
{person2} served <num-word> double faults in the deciding set .

[results.headline]
{company1} profit up {pct1} .
{company1} - {month1} results .
{country1} sales lift {company1} .

[results.lead]
{company1} <co-said> that profit rose {pct1} in the year to {month1} .
{country1.adj} {company1.maker} {company1} reported a profit of {money} <when> .
profit at {company1} rose {pct1} to {money} , the {city1} {company1.maker} said <when> .

[results.turns]
sales to {country} <moved> {pct} , while {country.adj} demand <moved> {pct} .
analysts in {city} had expected a rise of {pct} .
{company1.full} {money} v {money} ; {company2.full} {money} v {money}
{person2} of {bank} rates {company1} a buy .
orders from {country} and {country} <moved> {pct} in {month} .

[takeover.headline]
{company1} bids for {company2} .
{company1} raises {company2} bid .
{company2} shares jump on {company1} bid .

[takeover.lead]
{company1} offered {money} for {company2} <when> .
{company1} raised its bid for {company2} to {money} <when> .
{country1.adj} {company1.maker} {company1} bid {money} for {company2} <when> .

[takeover.turns]
the {body1} must approve the deal , which {company2} expects by {month} .
the {city} exchange suspended trading in {company2} .
{company2} is {pct} owned by the {person.last} family .
a spokesman for {company2} in {city} said talks with {person1} had failed .
" the price is too high , " said {person} , who owns {pct} of {company2} .

[closure.headline]
{company1} cuts {hundreds1} jobs in {city1} .
{city1} plant to close - {company1} .
{union1} calls strike at {company1} .

[closure.lead]
{company1} will close its plant in {city1} , {country1} , with the loss of {hundreds1} jobs .
the {union1} called a strike at {company1} <when> after it closed its {city1} works .
{company1} , the {country1.adj} {company1.maker} , cut {hundreds1} jobs in {city1} <when> .

[closure.turns]
the {union1} said workers at the {city} plant would strike from {day} .
{city1} mayor {person} asked {company1} to think again .
{company1} opened the plant in {year} and runs others in {city} and {city} .
the work will move to {city} , where {company2} has a mill .
" {city1} without {company1} is hard to imagine , " said {person} , a <trade> .

[chief.headline]
{person1.last} quits as {company1} chief .
{person1.last} leaves {company1} for {company2} .

[chief.lead]
{person1} stepped down <when> as chief executive of {company1} , the {country1.adj} {company1.maker} .
{company2} said <when> it had hired {person1} from rival {company1} .

[chief.turns]
{person1} , {age} , joined {company1} from {company} in {year} .
" {person1.last} leaves a strong firm behind , " said {person2} , who chairs {company1} .
{founder1} , whose family still owns {pct} of {company1} , backed the change .
{person1} will be replaced by {person} of {company} .

[business.body]
{company1} was founded in {year} by {founder1} , a <trade> from {city} .
{founder1.full} built {company1.full} from a stall in {city} into a {company1.maker} with {crowd} staff .
" <biz-quote> , " {person1} said .
" <biz-quote> , " said {person2} , an analyst at {bank} in {city} .
{company1} employs {crowd} people in {country1} and {country} .
{company1} said <biz-news> .
{person1} said <biz-news> .
{company2} declined to comment .
shares in {company1} <moved> {pct} in {city} and {pct} in {city} .
{company1} 's rivals include {company} , {company} and {country.based} {company} .
exports to {country} and {country} made up {pct} of sales .
{company1} , based in {city1} , was fined {fee} by the {body} last year .
the crown <moved> against the {country.adj} florin in {city} trading .
{club} said {company1} would remain its main sponsor .
gas from {region} will reach {city} by pipeline , {company} said .
{company1} also has offices in {city} and {city} .
{person2} left {company} for {company1} last year .

co-said: said <when> | reported <when> | announced <when> | told investors <when>
moved: rose | fell | slipped | jumped | climbed

[biz-quote]
{company1} has to find a partner
{country1} is our most important market
we do not see {company2} walking away
nobody at {company1} saw this coming
{city} will be glad of the work
the second half will be better

[biz-news]
the company would invest {money} in {country}
talks with {company} had ended
the {city} works would stay open
there were no plans to leave {country1}
costs at {company2} were too high
{person} would run the {country.adj} unit
the group expected to sell its stake in {company}

issue: <accord> | press law | prison reform | railway tariffs | water tax
accord: fishing pact | border accord | grain deal

[pact.headline]
{country1} , {country2} sign <accord> .
{country1} and {country2} to reopen border .

[pact.lead]
{country1} and {country2} signed a <accord> in {city1} <when> .
{country1.adj} <office> {person1} and {country2.adj} <office> {person2} signed a <accord> in {city1} <when> .

[pact.turns]
the border near {city} has been shut since {year} .
{country} and {country} welcomed the <accord> .
the <accord> covers the {water1} from {city} to {city} .
{country1.adj} and {country2.adj} officers met at {city} <when> .

[quarrel.headline]
{country1} accuses {country2} over {region1} .
{country2} rejects {country1} charge .
{country1.adj} envoy leaves {city1} .

[quarrel.lead]
{country1} accused {country2} <when> of <accusation> .
{country1.adj} <office> {person1} said <when> {country2} would <act> .
{country2} recalled its envoy from {city1} <when> after {person1} spoke of {region1} .

[quarrel.turns]
{country2} denied the charge .
{country} and {country} sided with {country1} ; {country} stayed neutral .
many {country2.people} live in {region1} , which {country1} annexed in {year} .
{country1.adj} patrols crossed the {water1} near {city} <when> .

[election.headline]
{person1.last} wins {country1} vote .
{party1} ahead of {party2} in {country1} .
{country1.people} back {person1.last} .

[election.lead]
{person1} , leader of the {party1} , won {share} percent of the vote in {country1} <when> .
the {party1} of {person1} came first in {country1} <when> with {share} percent of the vote .

[election.turns]
the {party1} and the {party2} hold {small} seats between them .
the {poll} put turnout at {share} percent .
{person2} 's {party2} won in {city} , {city} and {region} .
the {party2} called for a recount in {city} .

[coalition.headline]
{party1} leaves {country1.adj} coalition .
{person1.last} loses {party1} support .

[coalition.lead]
the {party1} left the government of {person1} <when> , leaving {country1} without a majority .
{country1.adj} <office> {person1} lost the support of the {party1} <when> .

[coalition.turns]
the {party1} and the {party2} hold {small} seats between them .
{person2} will lead the {party2} into talks in {city1} <next> .
the quarrel began over a railway from {city} to {region} .

[talks.headline]
{person1.last} , {person2.last} meet in {city1} .
{city1} talks end without accord .
{person2} - profile of {country2.adj} premier .

[talks.lead]
{person1} met {person2} in {city1} <when> for talks on the <issue> , the {ministry1} said .
talks on {region1} between {country1} and {country2} broke up in {city1} <when> .
{country2.adj} <office> {person2} flew to {city1} <when> to meet {person1} .

[talks.turns]
the talks , brokered by {country} , resume in {city} in {month} .
the {ministry1} said it would study the text .
a spokesman for {person2} said {country2} wanted peace .
{person1} and {person2} last met in {city} .

[protest.headline]
{country1.people} march in {city1} .
{city1} police break up march .
{union1} joins {city1} protest .

[protest.lead]
tens of thousands of {country1.people} marched in {city1} <when> against the <issue> .
the {union1} led a march through {city1} <when> against {person1} .
police in {city1} used water cannon <when> on supporters of {person1} .

[protest.turns]
in {city} , {person} 's supporters blocked the road to {region} .
a strike by the {union1} has closed ports from {city} to {city} .
the {ministry1} said {teens} people were held in {city} .
a smaller march in {city} ended early , {paper} said .

office: prime minister | president | foreign minister | premier | interior minister

[act]
reopen its embassy in {city}
leave talks on the <issue>
send observers to {country}
ask {country} for help
not recognise {region1}

accusation: <accusing> in {region1} | <accusing> near {city} | backing <who> in {region1} | jailing {person}
accusing: moving troops | dumping waste | blocking trade
who: rebels | smugglers | {country.adj} separatists

[politics.body]
" <pol-quote> , " {person1} <said> .
{person1} , {age} , a former mayor of {city} , heads the {party1} .
{person2} of the {party2} called the move a mistake .
the {country2.adj} embassy in {city1} declined to comment .
{person1} flew to {city} after talks in {city1} .
{person} , {country.adj} ambassador to {country1} , was called home .
opposition newspaper {paper} said {person1} had met {person} in secret .
{person1} served as envoy to {country} under {person} .
" {country2} is not our enemy , " {person1} told a rally in {city} .
{person1} last visited {city} for the {cup} final between {club} and {club} .
{company} , which has mines in {region1} , said {country2} had nothing to fear .
{paper} quoted {person} as saying {country} would stay neutral .

[pol-quote]
{country2} must choose
this law will not pass
I shall go to {city} myself
the {party2} has lost its way
{country1.people} have waited long enough
{region1} is not for sale
the {country.adj} plan is dead

[crash.headline]
{teens1} hurt in crash near {city1} .
{teens1} hurt in {country1} crash .
{city1} crash : driver held .

[crash.lead]
{teens1} people were hurt when <vehicle> <crashed> near {city1} , {country1} , on {today} .
<vehicle> <crashed> outside {city1} <when> , injuring {teens1} {country1.people} .

[crash.turns]
police in {city1} said the driver , {person1} , {age} , was unhurt .
{person1} told {city1} police that the brakes had failed .
{rail} , which runs the line , said service to {city} would resume on {day} .
{person} of the {watch} said the bridge was safe .

vehicle: a bus | a tram | a bus from {city} | a lorry belonging to {company}
crashed: left the road | overturned | hit a barrier

[fire.headline]
{city1} fire kills {toll1} .
blast at {company1} plant in {city1} .
{toll1} die in {country1} plant fire .

[fire.lead]
a fire at a {company1} plant in {city1} killed {toll1} people <when> .
rescuers in {city1} searched <when> for {toll1} {country1.people} missing since a blast at {company1} .

[fire.turns]
residents from {city1} to {city} were told to stay indoors .
{company1} said it would rebuild in {city1} .
smoke from the plant was seen as far away as {city} and {city} .
{person1} , who led the rescue for the {watch1} , was treated for burns .
the last fire at {company1} killed {teens} people in {year} .

[storm.headline]
storm hits {region1} , {city1} cut off .
{country1} weather : snow in {region1} .
{weather1} issues flood warning for {city1} .

[storm.lead]
heavy <rain> cut roads between {city1} and {city} <when> , the {weather1} said .
{country1.adj} rescuers reached {city1} <when> after a night of heavy <rain> .
the {weather1} warned <when> of floods in {city1} , {city} and along the {water1} .

[storm.turns]
schools in {city} , {city} and {city} were closed .
winds over the {water} reached {gust} kilometres an hour .
the {water1} rose to {digit} metres at {city} , the {weather1} said .
{club} called off training because of the storm .
{city} {teens} degrees , rain ; {city} {teens} , cloudy ; {city} {teens} , fair
the {weather1} expects more <rain> in {region1} on {day} .

[ferry.headline]
ferry with {country1.adj} tourists aground in {water1} .
{watch1} saves {teens1} from {line1} ferry .

[ferry.lead]
a ferry carrying {country1.adj} tourists ran aground in the {water1} <when> , the {watch1} said .
the {watch1} saved {teens1} {country1.people} from a {line1} ferry in the {water1} <when> .

[ferry.turns]
the ferry , built by {company} in {year} , was bound for {city} .
captain {person1} , {age} , was questioned in {city1} .
{country} offered to send divers .
{line1} said its ferries to {country} would sail as planned .

rain: rain | snow | hail

[accident.body]
" <witness> , " said {person2} , who lives in {city1} .
the injured were taken to {hospital} .
{hospital} said <num-word> patients were still in danger .
{city1} mayor {person} asked {country1} for help .
<num-word> {country.people} were among the injured .
trains from {city} to {city} were running late .
{person} , a doctor at {hospital} , praised the people of {city1} .
{club} and {club} will play a match for the families in {city} <next> .
the {ministry} sent {person} to {city1} .
police were questioning {person} of {company} .

[witness]
it sounded like thunder
in all my years in {city1} I have seen nothing like it
it was all over in a minute
nobody warned us

[award.headline]
" {work1} " wins {prize1} .
{person1.last} takes {prize1} in {city1} .

[award.lead]
{person1} 's " {work1} " won the {prize1} in {city1} <when> .
{country1.adj} film-maker {person1} won the {prize1} <when> for " {work1} " .

[opening.headline]
{person1.last} film opens {fest1} .
{fest1} opens with " {work1} " .

[opening.lead]
the {fest1} opened <when> with {person1} 's new film , " {work1} " .
{person2} will play the lead in " {work1} " , the film that opens the {fest1} .

[death.headline]
{person1} , {country1.adj} film-maker , dies at {age1} .
{city1} mourns {person1.last} .

[death.lead]
{country1.adj} film-maker {person1} died in {city1} <when> , aged {age1} .
{person1} , who directed " {work1} " and " {work} " , has died in {city1} .

[culture.body]
" {work1} " tells of a <trade> from {city} who follows a brother to {country} .
critics at {paper} called " {work1} " the best {country1.adj} film since " {work} " .
{person2} , last seen in " {work} " , plays the <trade> .
{person1} , who grew up in {city} , shot it in {region} .
" {person1.last} taught us to listen , " said {person2} .
the {fest1} , sponsored by {company} , runs until {day} .
the {school} has bought the letters of {person} for {fee} .
{person1} won the {prize} in {year} for " {work} " .
songs in {country.adj} and {country.adj} fill the second act .
a statue of {person} stands in {city} .
{press} will publish the {country.adj} translation in {month} .
{person} and {person} wrote the script .
{person1} studied at the {school} with {person} .
"""


class DocumentPart(NamedTuple):
    """A part of a document: between ``low`` and ``high`` sentences from one rule."""

    rule: str
    low: int = 1
    high: int = 1
    how: str = ""
    """``headline``, ``capitals``, ``rows`` (all of one alternative) or empty (each of another alternative)."""


_OPENING = (
    DocumentPart("headline", how="headline"),
    DocumentPart("byline", 0, 1),
    DocumentPart("dateline", how="capitals"),
    DocumentPart("lead"),
)
_MATCH = (
    DocumentPart("headline", how="headline"),
    DocumentPart("dateline", how="capitals"),
    DocumentPart("lead"),
    DocumentPart("deeds", 2, 3),
    DocumentPart("body", 2, 4),
    DocumentPart("score-line", 0, 1),
    DocumentPart("scorers", 0, 1),
    DocumentPart("attendance", 0, 1),
)
_ROUNDUP = (
    DocumentPart("headline", how="headline"),
    DocumentPart("dateline", how="capitals"),
    DocumentPart("lead"),
    DocumentPart("result", 2, 4, "rows"),
    DocumentPart("tail"),
    DocumentPart("row", 2, 4, "rows"),
    DocumentPart("notes", 0, 1),
)
_RACE = (*_OPENING, DocumentPart("row", 2, 4, "rows"), DocumentPart("body", 1, 3), DocumentPart("deeds", 1, 2))
_STORY = (*_OPENING, DocumentPart("turns", 1, 2), DocumentPart("body", 2, 4))
_TALE = (*_OPENING, DocumentPart("body", 3, 6))
SHAPES = {"roundup": _ROUNDUP, "sport": _MATCH, "race": _RACE, "culture": _TALE, "": _STORY}

FAMILY = {"football": "sport", "handball": "sport", "hockey": "sport", "cycling": "race", "tennis": "race"}
_SPORT = ("league", "league", "cup", "international", "roundup", "roundup")
STORIES = {
    "football": _SPORT, "handball": _SPORT, "hockey": _SPORT, "cycling": ("stage",), "tennis": ("final",),
    "business": ("results", "takeover", "closure", "chief"),
    "politics": ("pact", "quarrel", "election", "coalition", "talks", "protest"),
    "accident": ("crash", "fire", "storm", "ferry"),
    "culture": ("award", "opening", "death"),
}  # fmt: skip
KINDS = (  # of every twenty documents
    "football", "handball", "business", "politics", "accident", "football", "handball", "business", "cycling",
    "culture", "football", "handball", "politics", "hockey", "business", "tennis", "football", "handball",
    "politics", "accident",
)  # fmt: skip
