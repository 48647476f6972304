//! Argument lists as recorded (JSON text of dimensions, types and values) → [`Operands`].

use serde::Deserialize;

use crate::graph::{DType, Operand, Operands};

/// Sizes of a tensor, or of each tensor of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Dims {
    Size(i64),
    List(Vec<Dims>),
    Other(serde::de::IgnoredAny),
}

/// A type's name, or that of each element of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Type {
    Name(String),
    List(Vec<Type>),
    Other(serde::de::IgnoredAny),
}

/// A value as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(f64),
    Flag(bool),
    Other(serde::de::IgnoredAny),
}

/// Reads one argument list; parts that are absent or damaged count as empty.
///
/// # Arguments
/// `dims`, `types`, `concrete`: JSON arrays with one entry per argument, e.g. `[[64,128],[]]`, `["float","Int"]`, `["","1"]`.
pub(super) fn parse(dims: &str, types: &str, concrete: &str) -> Operands {
    let dims: Vec<Dims> = serde_json::from_str(dims).unwrap_or_default();
    let types: Vec<Type> = serde_json::from_str(types).unwrap_or_default();
    let values: Vec<Value> = serde_json::from_str(concrete).unwrap_or_default();
    let count = dims.len().max(types.len()).max(values.len());
    let inputs = (0..count).map(|i| operand(dims.get(i), types.get(i), values.get(i))).collect();
    Operands { inputs, outputs: Vec::new() }
}

fn operand(dims: Option<&Dims>, kind: Option<&Type>, value: Option<&Value>) -> Operand {
    let value = value.map(text).unwrap_or_default();
    match dims {
        Some(Dims::List(list)) if matches!(list.first(), Some(Dims::List(_))) => {
            Operand::TensorList(list.iter().enumerate().map(|(i, dims)| element(dims, kind, i)).collect())
        }
        Some(Dims::List(list)) if !list.is_empty() => tensor(list, kind),
        Some(Dims::List(list)) if value.is_empty() && is_tensor_type(kind) => tensor(list, kind),
        _ => Operand::Value(value),
    }
}

fn element(dims: &Dims, kind: Option<&Type>, index: usize) -> Operand {
    let kind = match kind {
        Some(Type::List(kinds)) => kinds.get(index),
        other => other,
    };
    match dims {
        Dims::List(list) => tensor(list, kind),
        Dims::Size(_) | Dims::Other(_) => Operand::Value(String::new()),
    }
}

fn tensor(dims: &[Dims], kind: Option<&Type>) -> Operand {
    let sizes = dims.iter().map(|dim| match dim {
        Dims::Size(size) => (*size).max(0) as u64,
        Dims::List(_) | Dims::Other(_) => 0,
    });
    Operand::Tensor { dims: sizes.collect(), dtype: dtype(kind), id: None }
}

fn dtype(kind: Option<&Type>) -> Option<DType> {
    match kind? {
        Type::Name(name) => DType::parse(name),
        Type::List(kinds) => dtype(kinds.first()),
        Type::Other(_) => None,
    }
}

/// Whether the type is that of a tensor's element (`float`, `long int`), which is in lower case, not of a number (`Int`).
fn is_tensor_type(kind: Option<&Type>) -> bool {
    let Some(Type::Name(name)) = kind else { return false };
    dtype(kind).is_some() && (name.starts_with("c10::") || name.starts_with(|first: char| first.is_lowercase()))
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Other(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_lists_and_values_are_told_apart() {
        let operands = parse(
            "[[512,3,224,224],[[4,2048],[8]],[],[],[]]",
            r#"["c10::BFloat16","TensorList","ScalarList","float","Int"]"#,
            r#"["","","[1, 1]","","3"]"#,
        );
        assert_eq!(operands.dims(0), Some(&[512, 3, 224, 224][..]));
        assert_eq!(operands.inputs[0].dtype(), Some(DType::Bf16));
        let Operand::TensorList(list) = &operands.inputs[1] else { panic!("{:?}", operands.inputs[1]) };
        assert_eq!((list[0].dims(), list[1].dims()), (Some(&[4, 2048][..]), Some(&[8][..])));
        assert_eq!(operands.inputs[2], Operand::Value("[1, 1]".into()));
        assert_eq!(operands.inputs[3].dims(), Some(&[][..]));
        assert_eq!(operands.inputs[4], Operand::Value("3".into()));
    }

    #[test]
    fn damaged_text_gives_no_operands() {
        assert_eq!(parse("[[1,", "", "nonsense"), Operands::default());
        assert_eq!(parse("[[-3]]", "[7]", "[null]").dims(0), Some(&[0][..]));
    }
}
