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
/// `dims`, `types`, `concrete`, `strides`: JSON arrays with one entry per argument, e.g. `[[64,128],[]]`, `["float","Int"]`,
/// `["","1"]`, `[[128,1],[]]`.
pub(super) fn parse([dims, types, concrete, strides]: [&str; 4]) -> Operands {
    let dims: Vec<Dims> = serde_json::from_str(dims).unwrap_or_default();
    let strides: Vec<Dims> = serde_json::from_str(strides).unwrap_or_default();
    let types: Vec<Type> = serde_json::from_str(types).unwrap_or_default();
    let values: Vec<Value> = serde_json::from_str(concrete).unwrap_or_default();
    let count = dims.len().max(types.len()).max(values.len());
    let inputs = (0..count).map(|i| operand(dims.get(i), strides.get(i), types.get(i), values.get(i))).collect();
    Operands { inputs, outputs: Vec::new() }
}

fn operand(dims: Option<&Dims>, strides: Option<&Dims>, kind: Option<&Type>, value: Option<&Value>) -> Operand {
    let value = value.map(text).unwrap_or_default();
    match dims {
        Some(Dims::List(list)) if matches!(list.first(), Some(Dims::List(_))) => {
            Operand::TensorList(list.iter().enumerate().map(|(i, dims)| element(dims, strides, kind, i)).collect())
        }
        Some(Dims::List(list)) if !list.is_empty() => tensor(list, strides, kind),
        Some(Dims::List(list)) if value.is_empty() && is_tensor_type(kind) => tensor(list, strides, kind),
        _ => Operand::Value(value),
    }
}

fn element(dims: &Dims, strides: Option<&Dims>, kind: Option<&Type>, index: usize) -> Operand {
    let kind = match kind {
        Some(Type::List(kinds)) => kinds.get(index),
        other => other,
    };
    let strides = match strides {
        Some(Dims::List(lists)) => lists.get(index),
        _ => None,
    };
    match dims {
        Dims::List(list) => tensor(list, strides, kind),
        Dims::Size(_) | Dims::Other(_) => Operand::Value(String::new()),
    }
}

fn tensor(dims: &[Dims], strides: Option<&Dims>, kind: Option<&Type>) -> Operand {
    let number = |dim: &Dims| match dim {
        Dims::Size(size) => Some(*size),
        Dims::List(_) | Dims::Other(_) => None,
    };
    let strides: Option<Vec<i64>> = match strides {
        Some(Dims::List(list)) => list.iter().map(number).collect(),
        _ => None,
    };
    let size = |dim: &Dims| number(dim).and_then(|size| u64::try_from(size).ok());
    match dims.iter().map(size).collect() {
        Some(sizes) => Operand::strided(sizes, &strides.unwrap_or_default(), dtype(kind)),
        None => Operand::Value(String::new()),
    }
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
        let operands = parse([
            "[[512,3,224,224],[[4,2048],[8]],[],[],[]]",
            r#"["c10::BFloat16","TensorList","ScalarList","float","Int"]"#,
            r#"["","","[1, 1]","","3"]"#,
            "[[1,0,5,6],[[1]],0]",
        ]);
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
        assert_eq!(parse(["[[1,", "", "nonsense", "{"]), Operands::default());
        assert_eq!(parse(["[[3]]", "[7]", "[null]", "[[null]]"]).dims(0), Some(&[3][..]));
        for size in ["-3", "9223372036854775808", "\"3\"", "3.5", "null"] {
            assert_eq!(parse([&format!("[[{size}]]"), "", "", ""]).dims(0), None, "{size}");
        }
    }

    #[test]
    fn what_is_expanded_is_in_memory_once() {
        let strides = "[[2048,1],[[0,0,1],[64,1]],[0]]";
        let operands =
            parse(["[[8,2048],[[16,128,64],[4,64]],[1]]", r#"["float","TensorList","long int"]"#, "", strides]);
        let Operand::TensorList(list) = &operands.inputs[1] else { panic!("{:?}", operands.inputs[1]) };
        let [plain, one] = [0, 2].map(|at: usize| operands.inputs[at].stored_elements());
        assert_eq!((plain, list[0].stored_elements(), list[1].stored_elements(), one), (8 * 2048, 64, 4 * 64, 1));
        let other = parse(["[[8,2048]]", "", "", "[[1]]"]);
        assert_eq!(other.inputs[0].stored_elements(), 8 * 2048, "strides of another tensor say nothing");
    }
}
