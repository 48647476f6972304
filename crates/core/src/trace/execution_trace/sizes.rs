//! Sizes of the tensors of a node, as written: whole numbers, which other tools than PyTorch also write as `64.0` or `"64"`.

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
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b',');
    if text.bytes().all(is_plain) {
        return as_written;
    }
    let Ok(mut arguments) = serde_json::from_str::<Vec<Value>>(text) else { return as_written };
    let is_tensor = |at: usize| types.get(at).is_none_or(|kind| kind.contains("Tensor("));
    let mut is_damaged = false;
    for (_, sizes) in arguments.iter_mut().enumerate().filter(|(at, _)| is_tensor(*at)) {
        let whole = whole_numbers(sizes);
        is_damaged |= whole.is_none();
        *sizes = whole.unwrap_or_default();
    }
    Sizes { text: Cow::Owned(Value::from(arguments).to_string()), is_damaged }
}

/// A size, or lists of sizes; `None` where one is no whole number from 0.
fn whole_numbers(value: &Value) -> Option<Value> {
    let whole = |size: f64| (size.fract() == 0.0 && (0.0..=9e15).contains(&size)).then_some(size as u64);
    match value {
        Value::Array(list) => list.iter().map(whole_numbers).collect::<Option<Vec<Value>>>().map(Value::from),
        Value::Number(size) => size.as_u64().or_else(|| size.as_f64().and_then(whole)).map(Value::from),
        Value::String(text) => text.trim().parse::<u64>().ok().map(Value::from),
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
}
