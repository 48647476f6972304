//! Where JSON tokens and values end in a window of text. Nothing here recurses, so nesting cannot exhaust the stack.

/// Why a token or value could not be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The window ends inside it.
    NeedMore,
    /// Something else stands here.
    Unexpected,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A byte of a number or literal.
const BARE: u8 = 1;
/// A quote or bracket.
const STRUCTURE: u8 = 2;

/// What each byte may be part of.
const KINDS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'+' | b'.' => BARE,
            b'"' | b'[' | b']' | b'{' | b'}' => STRUCTURE,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// Sets the high bit of the lowest byte of `word` that equals `byte` (and perhaps of higher bytes).
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * u64::from(byte));
    difference.wrapping_sub(ONES) & !difference & HIGH
}

/// Sets the high bit of the lowest control character of `word` (and perhaps of higher bytes).
#[inline]
fn control_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH
}

/// The first byte at or after `at` that is not white space.
#[inline]
pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// The byte at `at`.
#[inline]
pub fn peek(text: &[u8], at: usize) -> Result<u8, Stop> {
    text.get(at).copied().ok_or(Stop::NeedMore)
}

/// Passes over the byte `expected` at `at`.
#[inline]
pub fn expect(text: &[u8], at: usize, expected: u8) -> Result<usize, Stop> {
    if peek(text, at)? == expected { Ok(at + 1) } else { Err(Stop::Unexpected) }
}

/// Passes over the string whose opening quote is at `at`.
///
/// # Returns
/// The place after the closing quote, and whether there are escapes in it.
#[inline]
pub fn string_end(text: &[u8], at: usize) -> Result<(usize, bool), Stop> {
    let mut at = expect(text, at, b'"')?;
    let mut escaped = false;
    loop {
        at = special_byte(text, at)?;
        match peek(text, at)? {
            b'"' => return Ok((at + 1, escaped)),
            b'\\' => {
                escaped = true;
                at += 2;
            }
            _ => return Err(Stop::Unexpected),
        }
    }
}

/// The first quote, backslash or control character at or after `at`.
#[inline]
fn special_byte(text: &[u8], mut at: usize) -> Result<usize, Stop> {
    while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*bytes);
        let hit = equal_bytes(word, b'"') | equal_bytes(word, b'\\') | control_bytes(word);
        if hit != 0 {
            return Ok(at + hit.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    while !matches!(peek(text, at)?, b'"' | b'\\' | 0..0x20) {
        at += 1;
    }
    Ok(at)
}

/// Passes over the value at `at`. Brackets are counted, not paired; numbers and literals are taken as written.
pub fn value_end(text: &[u8], at: usize) -> Result<usize, Stop> {
    match peek(text, at)? {
        b'"' => Ok(string_end(text, at)?.0),
        b'{' | b'[' => container_end(text, at),
        _ => bare_end(text, at),
    }
}

fn container_end(text: &[u8], mut at: usize) -> Result<usize, Stop> {
    let mut depth = 0usize;
    loop {
        at = structure(text, at)?;
        match text[at] {
            b'"' => {
                at = string_end(text, at)?.0;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Ok(at);
        }
    }
}

/// The first quote or bracket at or after `at`, or something before it that looks like one from afar.
#[inline]
fn structure(text: &[u8], mut at: usize) -> Result<usize, Stop> {
    while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*bytes);
        // Brackets are 0x5b, 0x5d, 0x7b and 0x7d: alike but for 0x26.
        let hit = equal_bytes(word, b'"') | equal_bytes(word & (ONES * 0xd9), 0x59);
        if hit != 0 {
            return Ok(at + hit.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    while KINDS[usize::from(peek(text, at)?)] != STRUCTURE {
        at += 1;
    }
    Ok(at)
}

/// Passes over a number, `true`, `false`, `null`, and the `NaN` and `inf` that some writers put where JSON has no number.
#[inline]
pub fn bare_end(text: &[u8], start: usize) -> Result<usize, Stop> {
    let mut at = start + digits(&text[start.min(text.len())..]);
    while KINDS[usize::from(peek(text, at)?)] == BARE {
        at += 1;
    }
    if at == start { Err(Stop::Unexpected) } else { Ok(at) }
}

/// How many digits `text` begins with, as far as whole words tell.
#[inline]
fn digits(text: &[u8]) -> usize {
    let mut count = 0;
    while let Some(bytes) = text.get(count..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = leading_digits(u64::from_le_bytes(*bytes));
        count += found;
        if found < 8 {
            break;
        }
    }
    count
}

/// How many of the eight bytes of `word`, the lowest first, are digits before one is not.
#[inline]
pub fn leading_digits(word: u64) -> usize {
    // Digits are 0x30 to 0x39: 0 to 9 after the exclusive or, and from 0x76 on to at most 0x7f.
    let values = word ^ (ONES * 0x30);
    let others = (((values & (ONES * 0x7f)) + ONES * 0x76) | values) & (ONES * 0x80);
    others.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_the_quote_that_no_backslash_precedes() {
        assert_eq!(string_end(br#""abc" "#, 0), Ok((5, false)));
        assert_eq!(string_end(br#""a long one with \" inside and \\" x"#, 0), Ok((34, true)));
        assert_eq!(string_end(b"\"cut off in the middle", 0), Err(Stop::NeedMore));
        assert_eq!(string_end(b"\"cut off after\\", 0), Err(Stop::NeedMore));
        assert_eq!(string_end(b"\"line\nbreak\"", 0), Err(Stop::Unexpected));
    }

    #[test]
    fn values_end_where_their_brackets_close() {
        for text in ["[1, [2, \"]\"], {\"a\": \"}\"}]", "{}", "-1.5e3", "null", "\"x\""] {
            assert_eq!(value_end(format!("{text}, 7").as_bytes(), 0), Ok(text.len()), "{text}");
        }
        assert_eq!(value_end(b"[[1, 2]", 0), Err(Stop::NeedMore));
        assert_eq!(value_end(b"12", 0), Err(Stop::NeedMore));
        assert_eq!(value_end(b", ", 0), Err(Stop::Unexpected));
    }

    #[test]
    fn lists_end_where_they_do_wherever_the_text_lies() {
        let lists = [
            r#"[["a]", "b\\"], "c\"]", {"d}": [1, [2], {}]}, ["long strings that fill more than one block", 3], 4]"#,
            r#"[[2880, 1], [2880, 1], [1], [], ["c10::BFloat16", "ScalarList]["], {"x": {"y": "}"}}]"#,
            "[1, \"two\nlines\"]",
            "[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]",
        ];
        for list in lists {
            for lead in 0..17 {
                let text = format!("{}{list}, 12345678901234567890", " ".repeat(lead));
                let whole = lead + list.len();
                for end in lead + 1..=text.len() {
                    let expected = if end < whole { Err(Stop::NeedMore) } else { Ok(whole) };
                    let expected = if list.contains('\n') { Err(Stop::Unexpected) } else { expected };
                    let found = container_end(&text.as_bytes()[..end], lead);
                    assert!(
                        found == expected || found == Err(Stop::NeedMore) && end < whole,
                        "{list} {lead} {end}: {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_end_where_no_digit_letter_sign_or_point_follows() {
        for number in
            ["0", "12345678", "123456789.123", "1694128201545123.456", "-1e-12", "0x7f2b", "12/3", "1:2", "9;"]
        {
            let end = number.find(['/', ':', ';']).unwrap_or(number.len());
            for after in [",", " ", "}", "\n", "/", "\""] {
                assert_eq!(bare_end(format!("{number}{after}          ").as_bytes(), 0), Ok(end), "{number}{after}");
            }
        }
    }

    #[test]
    fn a_million_brackets_do_not_exhaust_the_stack() {
        let text = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(value_end(text.as_bytes(), 0), Ok(2_000_000));
    }
}
