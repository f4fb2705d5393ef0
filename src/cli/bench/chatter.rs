//! Made-up chats of any size, the same on each run.
//!
//! Words are used as people use them: few very often, most hardly ever (Zipf's law). The frequent ones are common
//! English, so that the built-in embedder knows them; the others are put together from syllables.

/// Common words, the most frequent first.
const COMMON: &str = "the to and a of in is it you that for on was with my be at have this but not are we so as \
    about just like can do me if what out up get there time or when know one all would from they go more no how \
    some then good day work think will going now really people need want see make today back home last year week \
    morning night right new great long little place night friend family house school money car food coffee water \
    book music film game phone computer garden kitchen bread dinner lunch breakfast train bus road bridge river sea \
    mountain city village street shop market doctor nurse teacher student lawyer engineer farmer artist painter \
    writer singer player team match training holiday travel ticket hotel flight airport weather rain snow sun wind \
    summer winter spring autumn monday tuesday wednesday thursday friday saturday sunday january march april june \
    july august october december dog cat horse bird fish tree flower apple orange tomato potato cheese butter sugar \
    salt pepper oil soup cake wine beer tea milk egg chicken beef rice pasta pizza salad recipe oven table chair \
    window door roof wall floor lamp bed room bathroom budget price cost rent loan bank tax invoice contract report \
    meeting project plan deadline email letter call question answer problem solution idea reason change choice \
    result test code server database error version backup network password account page picture video camera light \
    colour red blue green yellow black white big small old young early late fast slow warm cold happy sad tired \
    healthy ill strong weak cheap expensive easy hard open closed full empty near far left right north south east \
    west mother father sister brother daughter son wife husband uncle aunt neighbour colleague boss customer guest \
    birthday wedding party present visit walk run swim ride drive climb dance sing read write paint cook bake clean \
    wash repair build buy sell pay rent learn teach study practise remember forget promise decide start finish stop";

/// How many words there are in all.
const VOCABULARY: usize = 20_000;

/// Turns in a session.
pub(in crate::cli::bench) const SESSION_TURNS: usize = 20;

/// Words a user writes, words a model replies; half to one and a half times that.
const QUESTION_WORDS: usize = 15;
const REPLY_WORDS: usize = 60;

/// A source of chats.
pub(in crate::cli::bench) struct Chatter {
    words: Vec<String>,
    /// How much of all use falls on each word and those before it.
    reach: Vec<f64>,
    state: u64,
}

impl Chatter {
    pub(in crate::cli::bench) fn new(seed: u64) -> Self {
        let words = vocabulary();
        let mut sum = 0.0;
        let reach = (0..words.len())
            .map(|rank| {
                sum += 1.0 / (rank as f64 + 2.7);
                sum
            })
            .collect();
        Self { words, reach, state: seed }
    }

    /// What a user says.
    pub(in crate::cli::bench) fn message(&mut self) -> String {
        let end = if self.below(4) == 0 { "?" } else { "." };
        self.sentence(QUESTION_WORDS, end)
    }

    /// What a model replies: a few sentences.
    pub(in crate::cli::bench) fn reply(&mut self) -> String {
        let sentences: Vec<String> = (0..4).map(|_| self.sentence(REPLY_WORDS / 4, ".")).collect();
        sentences.join(" ")
    }

    /// A question about a message: some of its rarer words, asked for.
    pub(in crate::cli::bench) fn question(&mut self, about: &str) -> String {
        let rank = |word: &str| self.words.iter().position(|known| known == word).unwrap_or(0);
        let plain = about.to_lowercase();
        let mut words: Vec<&str> = plain.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3).collect();
        words.sort_by_cached_key(|word| std::cmp::Reverse(rank(word)));
        words.dedup();
        words.truncate(3);
        format!("What did I tell you about {} last week?", words.join(" and "))
    }

    fn sentence(&mut self, about: usize, end: &str) -> String {
        let length = about / 2 + self.below(about as u64 + 1) as usize;
        let words: Vec<String> = (0..length.max(3)).map(|_| self.word()).collect();
        let text = words.join(" ");
        let (first, rest) = text.split_at(1);
        format!("{}{rest}{end}", first.to_uppercase())
    }

    fn word(&mut self) -> String {
        let all = self.reach.last().copied().unwrap_or_default();
        let at = all * (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let place = self.reach.partition_point(|reach| *reach <= at);
        self.words[place.min(self.words.len() - 1)].clone()
    }

    /// A number below `bound`.
    pub(in crate::cli::bench) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The common words, then words of two to four syllables.
fn vocabulary() -> Vec<String> {
    const STARTS: [&str; 14] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st"];
    const CORES: [&str; 7] = ["a", "e", "i", "o", "u", "ai", "ou"];
    const ENDS: [&str; 6] = ["", "n", "r", "l", "s", "m"];
    let syllable = |n: usize| {
        let (start, n) = (STARTS[n % STARTS.len()], n / STARTS.len());
        let (core, n) = (CORES[n % CORES.len()], n / CORES.len());
        format!("{start}{core}{}", ENDS[n % ENDS.len()])
    };
    let syllables = STARTS.len() * CORES.len() * ENDS.len();
    let made = (0..).map(|n: usize| {
        // A step that has no divisor in common with the number of syllables visits them all.
        let spread = n * 211;
        format!("{}{}", syllable(spread % syllables), syllable(n / syllables * 37 + spread / 7))
    });
    let mut words: Vec<String> = Vec::with_capacity(VOCABULARY);
    let mut seen = std::collections::HashSet::new();
    for word in COMMON.split_whitespace().map(str::to_owned).chain(made) {
        if words.len() == VOCABULARY {
            break;
        }
        if seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn chats_are_the_same_on_each_run() {
        let some = |seed| {
            let mut chatter = Chatter::new(seed);
            (0..5).map(|_| format!("{} {}", chatter.message(), chatter.reply())).collect::<Vec<_>>()
        };
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
    }

    #[test]
    fn messages_have_the_length_of_ours() {
        let mut chatter = Chatter::new(3);
        let mean = |texts: Vec<String>| {
            texts.iter().map(|text| text.split(' ').count()).sum::<usize>() as f64 / texts.len() as f64
        };
        let messages = mean((0..500).map(|_| chatter.message()).collect());
        let replies = mean((0..500).map(|_| chatter.reply()).collect());
        assert!((13.0..17.0).contains(&messages) && (54.0..64.0).contains(&replies), "{messages} {replies}");
    }

    #[test]
    fn few_words_are_used_often_and_many_hardly_ever() {
        let mut chatter = Chatter::new(5);
        let mut uses: HashMap<String, usize> = HashMap::new();
        (0..50_000).for_each(|_| *uses.entry(chatter.word()).or_default() += 1);
        let mut counts: Vec<usize> = uses.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!(counts[0] > 1_000 && counts.len() > 8_000, "{} of {}", counts[0], counts.len());
        assert!(counts.iter().filter(|count| **count <= 3).count() > counts.len() / 2);
    }

    #[test]
    fn a_question_asks_for_rare_words_of_a_message() {
        let mut chatter = Chatter::new(7);
        let message = chatter.message();
        let question = chatter.question(&message);
        let asked = question.split(' ').find(|word| message.to_lowercase().contains(word) && word.len() > 3);
        assert!(asked.is_some(), "{question} / {message}");
    }

    #[test]
    fn there_are_enough_words() {
        assert_eq!(vocabulary().len(), VOCABULARY);
    }
}
