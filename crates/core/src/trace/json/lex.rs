//! Where JSON tokens and values end in a window of text. Nothing here recurses, so nesting cannot exhaust the stack.

use super::block::{BLOCK, Block};

/// Why a token or value could not be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The window ends inside it.
    NeedMore,
    /// Something else stands here.
    Unexpected,
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// The bytes that numbers and literals are made of.
const BARE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'+' | b'.');
        byte += 1;
    }
    table
};

/// Whether `byte` would go on a number or literal that stands before it.
#[inline]
pub(crate) fn is_bare(byte: u8) -> bool {
    BARE[usize::from(byte)]
}

/// The first byte at or after `at` that is not white space.
#[inline]
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// The byte at `at`.
#[inline]
pub(crate) fn peek(text: &[u8], at: usize) -> Result<u8, Stop> {
    text.get(at).copied().ok_or(Stop::NeedMore)
}

/// Passes over the byte `expected` at `at`.
#[inline]
pub(crate) fn expect(text: &[u8], at: usize, expected: u8) -> Result<usize, Stop> {
    if peek(text, at)? == expected { Ok(at + 1) } else { Err(Stop::Unexpected) }
}

/// Passes over the string whose opening quote is at `at`.
///
/// # Returns
/// The place after the closing quote, and whether there are escapes in it.
#[inline]
pub(crate) fn string_end(text: &[u8], at: usize) -> Result<(usize, bool), Stop> {
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
    while let Some(block) = Block::at(text, at) {
        let hits = block.specials();
        if hits != 0 {
            return Ok(at + hits.trailing_zeros() as usize);
        }
        at += BLOCK;
    }
    while !matches!(peek(text, at)?, b'"' | b'\\' | 0..0x20) {
        at += 1;
    }
    Ok(at)
}

/// Passes over the value at `at`. Brackets are counted, not paired; numbers and literals are taken as written.
#[inline]
pub(crate) fn value_end(text: &[u8], at: usize) -> Result<usize, Stop> {
    match peek(text, at)? {
        b'"' => Ok(string_end(text, at)?.0),
        b'{' | b'[' => plain_container_end(text, at).map_or_else(|| container_end(text, at), Ok),
        _ => bare_end(text, at),
    }
}

/// [`container_end`] block by block; `None` where there are escapes, control characters in strings, or the window ends.
#[inline]
fn plain_container_end(text: &[u8], mut at: usize) -> Option<usize> {
    let (mut depth, mut in_string) = (0u32, 0u32);
    loop {
        let block = Block::at(text, at)?;
        let strings = from_odd_to_even(block.equal(b'"')) ^ in_string;
        if block.equal(b'\\') | (block.controls() & strings) != 0 {
            return None;
        }
        let opens = block.opens() & !strings;
        let mut brackets = opens | (block.closes() & !strings);
        while brackets != 0 {
            let place = brackets.trailing_zeros();
            depth = depth.wrapping_add((opens >> place & 1) << 1).wrapping_sub(1);
            if depth == 0 {
                return Some(at + place as usize + 1);
            }
            brackets &= brackets - 1;
        }
        in_string = ((strings as i32) >> (u32::BITS - 1)) as u32;
        at += BLOCK;
    }
}

/// Ones from each bit of `marks` that is the first, third and so on up to before the one that follows it.
#[inline]
fn from_odd_to_even(marks: u32) -> u32 {
    let mut bits = marks;
    for distance in [1, 2, 4, 8, 16] {
        bits ^= bits << distance;
    }
    bits
}

/// Passes over the object or list at `at`, byte by byte between its strings.
#[cold]
fn container_end(text: &[u8], mut at: usize) -> Result<usize, Stop> {
    let mut depth = 0usize;
    loop {
        match peek(text, at)? {
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

/// Passes over a number, `true`, `false`, `null`, and the `NaN` and `inf` that some writers put where JSON has no number.
#[inline]
pub(crate) fn bare_end(text: &[u8], start: usize) -> Result<usize, Stop> {
    let mut at = start + digits(&text[start.min(text.len())..]);
    while is_bare(peek(text, at)?) {
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
pub(crate) fn leading_digits(word: u64) -> usize {
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
                    for found in
                        [container_end(&text.as_bytes()[..end], lead), value_end(&text.as_bytes()[..end], lead)]
                    {
                        assert!(
                            found == expected || found == Err(Stop::NeedMore) && end < whole,
                            "{list} {lead} {end}: {found:?}"
                        );
                    }
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
