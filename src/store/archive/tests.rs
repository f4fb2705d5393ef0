//! What blocks promise: everything comes back, damage never does.

use super::block::{CONTENT_BYTES_MAX, resealed};
use super::*;
use proptest::prelude::*;

fn turn(number: u64, question: &str, answer: Option<&str>, extra: Option<&str>) -> Archived {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Archived { number, question: question.into(), answer: owned(answer), extra: owned(extra) }
}

fn talk() -> Vec<Archived> {
    vec![
        turn(3, "Where do I live?", Some("In Lisbon, you said."), None),
        turn(4, "", None, Some(r#"{"question":{"name":"Ann"}}"#)),
        turn(9, "Wat kost dat? 价格 🦀 \0\r\n", Some(""), Some("{}")),
    ]
}

fn one_of(block: &[u8], number: u64) -> Result<Option<Archived>, BlockError> {
    OpenBlock::of(block)?.turn(number)
}

fn packed(turns: &[Archived]) -> Vec<u8> {
    pack(turns, Level::Quick).expect("small enough")
}

#[test]
fn turns_come_back_at_either_level() {
    for level in [Level::Quick, Level::Thorough] {
        let block = pack(&talk(), level).expect("small enough");
        assert_eq!(unpack(&block), Ok(talk()));
        assert_eq!(one_of(&block, 4), Ok(Some(talk().remove(1))));
        assert_eq!(one_of(&block, 5), Ok(None));
    }
    assert_eq!(unpack(&packed(&[])), Ok(Vec::new()));
}

/// [`talk`] as the first release wrote it.
const WITH_FIRST_DICTIONARY: &str = concat!(
    "724101643d154e4ee21575a5ce8a98ecec1099016d28b52ffd00009d0200940301030301050102031b021014001d00227d7d",
    "7b7d57646f3f496e204c6973626f6e2c2e57616461743f20e4bbb7e6a0bc20f09fa68020000d0a06fc6fe375f0a1caced467",
    "b2bbf1a91a8c9a20152895d51f",
);

/// Two turns of the same person, in words, as blocks of the first version said it.
const IN_FIRST_VERSION: &str = concat!(
    "724101ba0c42b490265f51d6e8afa4538c645902c70128b52ffd00006d02007384101bc89fb939d1dde8286fe6619f57e286",
    "effc2c8e870fe05bc01bd9cf0c2d2bf8cda22b75979d1715b1f3b3385b663f9d002faf2032563871387102020425080f9402",
    "02fccbf94a09f269",
);

/// The same as blocks of the second version said it.
const IN_SECOND_VERSION: &str = concat!(
    "7241024ad6b909ec33684f2a34ce7f78ddedd902ab0128b52ffda04b0000005902000202030103071b102d1f297b229a9994",
    "96416e6ec2b2c75ca48dc1c23f496ed06d2c85c2232ec0f786ba8dc2832ec424c096c012a48dc1c2c00f3fd4c880ad88c1ca",
    "2ca0c21ba08dc0402e",
);

fn of_digits(digits: &str) -> Vec<u8> {
    let byte = |digits: &[u8; 2]| std::str::from_utf8(digits).map(|text| u8::from_str_radix(text, 16));
    digits.as_bytes().as_chunks::<2>().0.iter().map(|two| byte(two).expect("ASCII").expect("digits")).collect()
}

#[test]
fn blocks_of_earlier_days_stay_readable() {
    let name = Some(r#"{"question":{"name":"Ann"}}"#);
    let live = turn(3, "Where do I live?", Some("In Lisbon, you said. That is what I remember."), name);
    let since = turn(4, "And since when do I live there?", Some("Since the first of May, as far as I know."), name);
    let two = vec![live, since];
    let earlier = [(WITH_FIRST_DICTIONARY, 1, talk()), (IN_FIRST_VERSION, 1, two.clone()), (IN_SECOND_VERSION, 2, two)];
    for (digits, version, turns) in earlier {
        let block = of_digits(digits);
        assert_eq!(unpack(&block).as_ref(), Ok(&turns));
        let rewritten = recompress(&block, Level::Quick).expect("readable");
        assert_eq!(rewritten, packed(&turns), "as blocks are written now");
        assert_eq!((block[2], rewritten[2]), (version, 3));
    }
}

#[test]
fn a_short_conversation_is_smaller_than_its_text() {
    let said = "I think that we should go to the new place next week, because my sister told me about it.";
    let turns: Vec<Archived> = (1..=5).map(|number| turn(number, said, Some("Sure, I can help you."), None)).collect();
    let thorough = pack(&turns, Level::Thorough).expect("small enough");
    let text: usize = turns.iter().map(Archived::bytes).sum();
    assert!(2 * packed(&turns).len() < text, "{} of {text} bytes", packed(&turns).len());
    assert!(thorough.len() < 120, "{} bytes", thorough.len());
}

/// What a small block is left as is what any zstd reads, and what is a little larger is compressed.
#[test]
fn small_blocks_are_words_and_large_ones_compressed() {
    let said = "I think that we should go to the new place next week.";
    let block_of = |turns: u64| packed(&(1..=turns).map(|number| turn(number, said, None, None)).collect::<Vec<_>>());
    let [few, more, many] = [10, 20, 500].map(|turns| block_of(turns).len());
    assert!(more > few * 3 / 2, "each turn costs its words: {few} and {more} bytes");
    assert!(many < more * 3, "what is said again costs nothing: {more} and {many} bytes");
}

#[test]
fn a_megabyte_comes_back() {
    let long: String = (0_u32..)
        .map(|n| char::from_u32(n.wrapping_mul(2_654_435_761) % 0xd800).unwrap_or('x'))
        .take(400_000)
        .collect();
    assert!(long.len() > 1_000_000);
    let turns = [turn(1, &long, Some(&"ha".repeat(500_000)), None)];
    let block = packed(&turns);
    assert_eq!(unpack(&block).as_deref(), Ok(&turns[..]));
    assert_eq!(recompress(&block, Level::Thorough).and_then(|block| unpack(&block)).as_deref(), Ok(&turns[..]));
}

#[test]
fn what_cannot_be_read_says_why() {
    let block = packed(&talk());
    assert_eq!(unpack(b""), Err(BlockError::NotABlock));
    assert_eq!(unpack(b"{\"json\": true}"), Err(BlockError::NotABlock));
    let said_to_be = |version: u8| [&b"rA"[..], &[version], &block[3..]].concat();
    assert_eq!(unpack(&said_to_be(4)), Err(BlockError::Newer(4)));
    for other in 0..3 {
        let damaged = Err(BlockError::Damaged("its content is of another version"));
        assert_eq!(unpack(&said_to_be(other)), damaged, "{other}");
    }
    let foreign = resealed(&block, |head| head.dictionary = 7);
    assert_eq!(unpack(&foreign), Err(BlockError::UnknownDictionary(7)));
    assert!(BlockError::UnknownDictionary(7).to_string().contains("dictionary 7"));
}

#[test]
fn a_forged_length_asks_for_no_memory() {
    let block = packed(&talk());
    for bytes in [u64::MAX, CONTENT_BYTES_MAX as u64 + 1] {
        assert_eq!(unpack(&resealed(&block, |head| head.bytes = bytes)), Err(BlockError::TooLarge(bytes)));
    }
    for bytes in [0, 1, 10_000] {
        assert!(matches!(unpack(&resealed(&block, |head| head.bytes = bytes)), Err(BlockError::Damaged(_))), "{bytes}");
    }
}

#[test]
fn a_content_that_is_not_what_was_sealed_is_damage() {
    let block = resealed(&packed(&talk()), |head| head.sum ^= 1);
    assert_eq!(unpack(&block), Err(BlockError::Damaged("its content does not match its checksum")));
}

#[test]
fn too_much_for_one_block_is_refused() {
    let turns = [turn(1, &"x".repeat(CONTENT_BYTES_MAX), None, None)];
    assert!(matches!(pack(&turns, Level::Quick), Err(BlockError::TooLarge(_))));
}

#[test]
fn what_was_taken_out_is_gone() {
    let secret = "The code of the safe is 4711-0815.";
    let block = packed(&[turn(1, "Hello", None, None), turn(2, secret, None, None)]);
    let left = without(&block, &[2, 77]).expect("reads").expect("one turn is left");
    assert_eq!(left, packed(&[turn(1, "Hello", None, None)]), "nothing of it is in the bytes");
    assert_eq!(without(&block, &[1, 2]), Ok(None));
}

/// Texts that are hard on whoever cuts or counts: nothing, any characters, long repetitions.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        ".{0,40}",
        "\\PC{0,60}",
        "[a-z ]{0,200}",
        ("\\PC{1,8}", 1..400_usize).prop_map(|(text, times)| text.repeat(times))
    ]
}

fn turns() -> impl Strategy<Value = Vec<Archived>> {
    let one = (1..60_u64, text(), prop::option::of(text()), prop::option::of(text()));
    let one = one.prop_map(|(number, question, answer, extra)| Archived { number, question, answer, extra });
    prop::collection::vec(one, 0..12)
}

/// In the order of their numbers, the later of two with one number.
fn in_order(turns: &[Archived]) -> Vec<Archived> {
    let by_number: std::collections::BTreeMap<u64, Archived> =
        turns.iter().map(|turn| (turn.number, turn.clone())).collect();
    by_number.into_values().collect()
}

proptest! {
    #[test]
    fn any_turns_come_back(turns in turns(), thorough in any::<bool>()) {
        let level = if thorough { Level::Thorough } else { Level::Quick };
        let block = pack(&turns, level).expect("small enough");
        prop_assert_eq!(unpack(&block), Ok(in_order(&turns)));
        for turn in in_order(&turns) {
            prop_assert_eq!(one_of(&block, turn.number), Ok(Some(turn)));
        }
    }

    #[test]
    fn a_flipped_bit_is_an_error(turns in turns(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut block = packed(&turns);
        let at = at.index(block.len());
        block[at] ^= 1_u8 << bit;
        prop_assert!(unpack(&block).is_err());
        prop_assert!(one_of(&block, 1).is_err());
    }

    #[test]
    fn a_block_that_was_cut_is_an_error(turns in turns(), at in any::<prop::sample::Index>(), tail in prop::collection::vec(any::<u8>(), 1..9)) {
        let block = packed(&turns);
        prop_assert!(unpack(&block[..at.index(block.len())]).is_err());
        prop_assert!(unpack(&[&block[..], &tail].concat()).is_err());
    }

    /// Even when somebody makes the seal right again: other text never comes out.
    #[test]
    fn damage_under_a_right_seal_is_an_error_or_nothing(turns in turns(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let block = resealed(&packed(&turns), |head| {
            let at = at.index(head.payload.len());
            head.payload[at] ^= 1_u8 << bit;
        });
        if let Ok(read) = unpack(&block) {
            prop_assert_eq!(read, in_order(&turns));
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(unpack(&bytes).is_err());
        for version in 1..=3 {
            prop_assert!(unpack(&[&b"rA"[..], &[version], &bytes].concat()).is_err());
        }
    }

    #[test]
    fn extending_is_packing_both(first in turns(), second in turns()) {
        let extended = extended(&packed(&first), &second).expect("reads");
        prop_assert_eq!(&extended, &packed(&in_order(&[first, second.clone()].concat())));
        prop_assert_eq!(&super::extended(&extended, &second).expect("reads"), &extended, "twice does no harm");
    }

    #[test]
    fn without_is_packing_the_others(turns in turns(), gone in prop::collection::vec(1..60_u64, 0..8)) {
        let left: Vec<Archived> = in_order(&turns).into_iter().filter(|turn| !gone.contains(&turn.number)).collect();
        let expected = (!left.is_empty()).then(|| packed(&left));
        prop_assert_eq!(without(&packed(&turns), &gone), Ok(expected));
    }

    #[test]
    fn compressing_again_changes_no_word(turns in turns()) {
        let quick = packed(&turns);
        let thorough = recompress(&quick, Level::Thorough).expect("reads");
        prop_assert_eq!(unpack(&thorough), unpack(&quick));
        prop_assert_eq!(&thorough, &pack(&turns, Level::Thorough).expect("small enough"));
        prop_assert_eq!(recompress(&thorough, Level::Quick), Ok(quick));
    }
}
