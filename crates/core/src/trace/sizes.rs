//! Sizes of the tensors that an operator was given, as written: whole numbers, which other tools than PyTorch also write as `64.0`
//! or `"64"`.

use std::borrow::Cow;

use serde_json::Value;

/// Sizes that can be read.
pub(super) struct Sizes<'a> {
    /// As JSON text, whole numbers alone; of a tensor whose sizes cannot be read `null`.
    pub(super) text: Cow<'a, str>,
    /// Whether those of a tensor cannot be read.
    pub(super) is_damaged: bool,
}

/// Reads `text`, which has an entry for each argument; `types` are the arguments' types.
pub(super) fn read<'a>(text: &'a str, types: &[Cow<'_, str>]) -> Sizes<'a> {
    let as_written = Sizes { text: Cow::Borrowed(text), is_damaged: false };
    if is_plain(text) {
        return as_written;
    }
    let Ok(mut arguments) = serde_json::from_str::<Vec<Value>>(text) else {
        return Sizes { is_damaged: true, ..as_written };
    };
    let is_tensor = |at: usize| types.get(at).is_none_or(|kind| kind.contains("Tensor("));
    let mut is_damaged = false;
    for (_, sizes) in arguments.iter_mut().enumerate().filter(|(at, _)| is_tensor(*at)) {
        let whole = whole_numbers(sizes);
        is_damaged |= whole.is_none();
        *sizes = whole.unwrap_or_default();
    }
    Sizes { text: Cow::Owned(Value::from(arguments).to_string()), is_damaged }
}

/// Whether `text` has nothing but lists of whole numbers that fit 63 bits.
fn is_plain(text: &str) -> bool {
    /// As many digits may be a number that does not fit.
    const TOO_MANY: u32 = 19;
    let mut digits = 0;
    text.bytes().all(|byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        digits < TOO_MANY && (digits > 0 || byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b','))
    })
}

/// A size, or lists of sizes; `None` where one is no whole number from 0 to 2⁶³ − 1.
fn whole_numbers(value: &Value) -> Option<Value> {
    let whole = |size: f64| (size.fract() == 0.0 && (0.0..=9e15).contains(&size)).then_some(size as u64);
    let narrow = |size: u64| i64::try_from(size).ok().map(Value::from);
    match value {
        Value::Array(list) => list.iter().map(whole_numbers).collect::<Option<Vec<Value>>>().map(Value::from),
        Value::Number(size) => size.as_u64().or_else(|| size.as_f64().and_then(whole)).and_then(narrow),
        Value::String(text) => text.trim().parse::<u64>().ok().and_then(narrow),
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        let types = ["Tensor(float)", "GenericList[Tensor(float)]", "Int"].map(Cow::Borrowed);
        let read = |text: &str| {
            let sizes = read(text, &types);
            (sizes.text.into_owned(), sizes.is_damaged)
        };
        assert_eq!(read("[[64, 8],[[2]],[]]"), ("[[64, 8],[[2]],[]]".to_owned(), false));
        assert_eq!(read(r#"[["64",8.0],[["2"]],[]]"#), ("[[64,8],[[2]],[]]".to_owned(), false));
        assert_eq!(read("[[-64,8],[[2]],[]]"), ("[null,[[2]],[]]".to_owned(), true));
        assert_eq!(read(r#"[[64.5],[["x"]],["y"]]"#), (r#"[null,null,["y"]]"#.to_owned(), true));
    }

    #[test]
    fn sizes_beyond_63_bits_are_none() {
        let largest = "[[9223372036854775807,1]]";
        let sizes = read(largest, &[]);
        assert_eq!((sizes.text.as_ref(), sizes.is_damaged), (largest, false));
        for size in ["9223372036854775808", "18446744073709551616", "1e30", "\"9223372036854775808\""] {
            let text = format!("[[{size},1]]");
            let sizes = read(&text, &[]);
            assert_eq!((sizes.text.as_ref(), sizes.is_damaged), ("[null]", true), "{size}");
        }
    }
}
