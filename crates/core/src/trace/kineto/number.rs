//! Renumbering as JSON text → integers, exactly: a double cannot hold an epoch in microseconds to the nanosecond.

use crate::trace::json::lex;

/// `text` times `10^digits`, rounded to the nearest integer (halves away from zero); `None` when it is no JSON
/// number or does not fit. The text may stand in quotes.
pub fn scaled(text: &[u8], digits: u32) -> Option<i64> {
    let bytes = unquoted(text);
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let magnitude = match short(bytes, digits) {
        Some(magnitude) => magnitude,
        None => plain(bytes, digits).or_else(|| with_exponent(bytes, digits))?,
    };
    let value = i64::try_from(magnitude).ok()?;
    Some(if negative { -value } else { value })
}

/// Microseconds → nanoseconds.
pub fn nanoseconds(text: &[u8]) -> Option<i64> {
    scaled(text, 3)
}

/// A whole number; a fraction is rounded.
pub fn integer(text: &[u8]) -> Option<i64> {
    scaled(text, 0)
}

/// An id: a decimal or `0x` hexadecimal number up to 64 bits; negative ones are none.
pub fn id(text: &[u8]) -> Option<u64> {
    match unquoted(text) {
        [b'0', b'x', hex @ ..] => u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok(),
        decimal => short(decimal, 0).or_else(|| plain(decimal, 0)),
    }
}

/// Whether `text` is a number, however large; it may stand in quotes.
pub fn is_number(text: &[u8]) -> bool {
    let text = std::str::from_utf8(unquoted(text)).unwrap_or_default();
    text.ends_with(|last: char| last.is_ascii_digit() || last == '.') && text.parse::<f64>().is_ok()
}

/// The text without the quotes around it, if it has them.
pub fn unquoted(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        _ => text,
    }
}

/// Digits with at most `digits` more behind a point, few enough not to overflow: nearly every number of a trace.
#[inline]
fn short(bytes: &[u8], digits: u32) -> Option<u64> {
    /// Digits that always fit 64 bits.
    const SAFE: usize = 19;
    const SCALES: [u64; 4] = [1, 10, 100, 1000];
    let (value, whole) = leading(bytes);
    if whole == 0 || whole + digits as usize > SAFE {
        return None;
    }
    match &bytes[whole..] {
        [] => Some(value * SCALES.get(digits as usize)?),
        [b'.', fraction_digits @ ..] => fraction(value, fraction_digits, digits),
        _ => None,
    }
}

/// The number that the leading digits of `bytes` make, and how many there are; wrong where they are too many for 64 bits.
#[inline]
fn leading(bytes: &[u8]) -> (u64, usize) {
    let (mut value, mut count) = (0u64, 0);
    while let Some(word) = bytes.get(count..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        if lex::leading_digits(word) < 8 {
            break;
        }
        value = value.wrapping_mul(100_000_000).wrapping_add(eight_digits(word));
        count += 8;
    }
    while let Some(digit) = digit(bytes, count) {
        value = value.wrapping_mul(10).wrapping_add(digit);
        count += 1;
    }
    (value, count)
}

/// The number that eight digits make, the first in the lowest byte: pairs, then fours, then all are put together at once.
#[inline]
fn eight_digits(word: u64) -> u64 {
    let digits = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (digits.wrapping_mul(10 * 256 + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 * 65_536 + 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 * 4_294_967_296 + 1) >> 32
}

#[inline]
fn fraction(mut value: u64, bytes: &[u8], digits: u32) -> Option<u64> {
    let missing = (digits as usize).checked_sub(bytes.len())?;
    if bytes.is_empty() {
        return None;
    }
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit >= 10 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    for _ in 0..missing {
        value *= 10;
    }
    Some(value)
}

/// Digits with an optional fraction and nothing else.
fn plain(bytes: &[u8], digits: u32) -> Option<u64> {
    let mut value = 0u64;
    let mut at = 0;
    while let Some(digit) = digit(bytes, at) {
        value = value.checked_mul(10)?.checked_add(digit)?;
        at += 1;
    }
    let mut missing = digits;
    if at == 0 {
        return None;
    }
    let mut round_up = false;
    if bytes.get(at) == Some(&b'.') {
        let first = at + 1;
        at = first;
        while let Some(digit) = digit(bytes, at) {
            if missing > 0 {
                value = value.checked_mul(10)?.checked_add(digit)?;
                missing -= 1;
            } else if at - first == digits as usize {
                round_up = digit >= 5;
            }
            at += 1;
        }
        if at == first {
            return None;
        }
    }
    if at != bytes.len() {
        return None;
    }
    value.checked_mul(10u64.checked_pow(missing)?)?.checked_add(u64::from(round_up))
}

fn digit(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10).map(u64::from)
}

/// `1.5e16` and the like: the digits are shifted as text, then read by [`plain`].
#[cold]
fn with_exponent(bytes: &[u8], digits: u32) -> Option<u64> {
    const WIDEST: i32 = 400;
    let split = bytes.iter().position(|b| matches!(b, b'e' | b'E'))?;
    let (mantissa, exponent) = (&bytes[..split], std::str::from_utf8(&bytes[split + 1..]).ok()?);
    let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    if exponent.abs() > WIDEST || !mantissa.first()?.is_ascii_digit() || !mantissa.last()?.is_ascii_digit() {
        return None;
    }
    let point = mantissa.iter().position(|b| *b == b'.').unwrap_or(mantissa.len()) as i32;
    let all: Vec<u8> = mantissa.iter().copied().filter(|b| *b != b'.').collect();
    let moved = point + exponent;
    let mut text = vec![b'0'; (1 - moved).max(0) as usize];
    text.extend(&all);
    let at = moved.max(1) as usize;
    while text.len() <= at {
        text.push(b'0');
    }
    text.insert(at, b'.');
    plain(&text, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_microseconds_keep_their_nanoseconds() {
        assert_eq!(nanoseconds(b"1712195495505582.988"), Some(1_712_195_495_505_582_988));
        assert_eq!(nanoseconds(b"1694128201435559"), Some(1_694_128_201_435_559_000));
        assert_eq!(nanoseconds(b"-2.5"), Some(-2_500));
        assert_eq!(nanoseconds(b"\"17\""), Some(17_000));
    }

    #[test]
    fn the_short_way_gives_what_the_long_way_gives() {
        for text in ["0", "7.5", "12.125", "999999999999999999", "1712195495505582.9", "3.25", "18446744073709551615"] {
            for digits in [0, 3] {
                if let Some(short) = short(text.as_bytes(), digits) {
                    assert_eq!(Some(short), plain(text.as_bytes(), digits), "{text}");
                }
            }
        }
        assert!(short(b"1712195495505582.9", 3).is_some() && short(b"1694128201435559", 3).is_some());
    }

    #[test]
    fn digits_beyond_the_nanosecond_are_rounded() {
        assert_eq!(nanoseconds(b"0.0005"), Some(1));
        assert_eq!(nanoseconds(b"0.00049"), Some(0));
        assert_eq!(nanoseconds(b"9.9996"), Some(10_000));
        assert_eq!(integer(b"31.5"), Some(32));
    }

    #[test]
    fn exponents_shift_the_digits() {
        assert_eq!(nanoseconds(b"1.5e3"), Some(1_500_000));
        assert_eq!(nanoseconds(b"25e-1"), Some(2_500));
        assert_eq!(nanoseconds(b"1e-9"), Some(0));
        assert_eq!(nanoseconds(b"1.7121954955055829e15"), Some(1_712_195_495_505_582_900));
    }

    #[test]
    fn what_does_not_fit_or_is_no_number_is_none() {
        for text in ["9223372036854775808", "1e30", "1e999999", "", "-", ".5", "5.", "1 2", "abc", "1e", "0x10", "e5"] {
            assert_eq!(nanoseconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn ids_may_be_wide_or_hexadecimal_but_not_negative() {
        assert_eq!((id(b"18446744073709551615"), id(b"\"0x1f\""), id(b"-1")), (Some(u64::MAX), Some(31), None));
    }
}
