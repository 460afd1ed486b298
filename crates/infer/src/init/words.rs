//! Common words.

/// Each becomes a token with the space before it.
pub(super) const WORDS: &str = "
    the a an and or but not of to in on at by for from with about over under after before between through
    I you he she it we they me him her us them my your his its our their this that these those who what which
    where when why how is are was were be been have has had do does did can could will would may might must
    go goes went come came see saw seen say said says tell told ask asked make made take took give gave get got
    find found know knew think thought want wanted need try tried use used work works call called keep kept let
    begin began show hear heard play run ran move live believe hold bring write wrote read stand sit lose pay meet
    learn change lead follow stop create speak open walk win teach offer remember love wait serve send build stay
    fall reach sell decide pull rain snow shine sing dance dream
    time year day week month hour minute morning evening night people man woman child children world life hand
    part place case thing number way water fire earth air stone tree river sea sky sun moon star wind mountain
    road house room door window table bread salt city country school word book page story song name letter line
    question answer reason idea light dark sound voice eye face head heart mind body friend mother father brother
    sister king queen bird fish horse dog cat machine paper picture colour red green blue white black gold silver
    old new young good bad great small large long short high low early late first last next same other few many
    much more most some any all each every both no only very too so then now here there again never always often
    soon still well just also quite perhaps almost away back down up out off
    one two three four five six seven eight nine ten hundred thousand
";
