//! Argument lists of nodes as the profiler writes those of operators, so that one reader understands both.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{EtArguments, EtValue, ExecutionTrace};
use crate::intern::{NameId, NameTable};
use crate::trace::TensorArgs;

/// A type's name, or those of the tensors of a list.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Kind<'a> {
    One(&'a str),
    Each(Vec<&'a str>),
}

impl<'a> Kind<'a> {
    /// `Tensor(float)` → `float`, `GenericList[Tensor(float),Tensor(int)]` → `["float", "int"]`, `Double` → `Scalar`.
    fn of(kind: &'a str) -> Self {
        let element = |kind: &'a str| kind.strip_prefix("Tensor(").and_then(|rest| rest.strip_suffix(')'));
        let list = kind.strip_prefix("GenericList[").and_then(|rest| rest.strip_suffix(']'));
        match (element(kind), list) {
            (Some(element), _) => Self::One(element),
            (None, Some(list)) if list.starts_with("Tensor(") => {
                Self::Each(list.split(',').map(|kind| element(kind.trim()).unwrap_or_default()).collect())
            }
            (None, Some(_)) => Self::One("ScalarList"),
            (None, None) => Self::One(match kind {
                "Int" | "Bool" | "Double" => "Scalar",
                "None" => "",
                other => other,
            }),
        }
    }
}

/// The argument list `run` of a node, in `names`, which must hold every text of `source` under the same id or be able to
/// take new ones.
pub(super) fn tensor_args(source: &ExecutionTrace, run: &EtArguments, names: &mut NameTable) -> TensorArgs {
    let types: Vec<Cow<'_, str>> = serde_json::from_str(source.names.get(run.types)).unwrap_or_default();
    let shapes: Vec<&RawValue> = serde_json::from_str(source.names.get(run.shapes)).unwrap_or_default();
    let is_tensors = |kind: &str| kind.starts_with("Tensor(") || kind.starts_with("GenericList[Tensor(");
    if shapes
        .iter()
        .enumerate()
        .any(|(at, dims)| dims.get() == "null" && types.get(at).is_none_or(|kind| is_tensors(kind)))
    {
        // Sizes that could not be read: of the operator none are known.
        return TensorArgs::default();
    }
    let dims = shapes.iter().enumerate().map(|(at, dims)| match types.get(at) {
        // A list of numbers has an empty entry for each of them, which reads like a list of tensors without sizes.
        Some(kind) if !is_tensors(kind) => "[]",
        _ => dims.get(),
    });
    let dims = format!("[{}]", dims.collect::<Vec<_>>().join(","));
    let kinds: Vec<Kind<'_>> = types.iter().map(|kind| Kind::of(kind)).collect();
    let mut text = |json: String| if types.is_empty() { NameId(0) } else { names.intern(&json) };
    TensorArgs {
        dims: text(dims),
        types: text(serde_json::to_string(&kinds).unwrap_or_default()),
        concrete: text(serde_json::to_string(&concrete(source, run)).unwrap_or_default()),
        strides: NameId(0),
    }
}

/// The values that are no tensors, as the profiler writes them; an empty text for each tensor or list of tensors.
fn concrete(source: &ExecutionTrace, run: &EtArguments) -> Vec<String> {
    let (values, mut at, mut found) = (source.values_of(run), 0, Vec::new());
    while let Some(value) = values.get(at) {
        at += 1;
        found.push(match value {
            EtValue::Tensor(_) => String::new(),
            EtValue::List(count) => {
                at += *count as usize;
                String::new()
            }
            EtValue::Text(text) => written(source.names.get(*text)),
        });
    }
    found
}

fn written(json: &str) -> String {
    match json {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        "\"<None>\"" | "null" => String::new(),
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_the_profiler() {
        assert_eq!(Kind::of("Tensor(c10::Half)"), Kind::One("c10::Half"));
        assert_eq!(Kind::of("Tensor(nullptr (uninitialized))"), Kind::One("nullptr (uninitialized)"));
        assert_eq!(Kind::of("GenericList[Tensor(float), Tensor(long int)]"), Kind::Each(vec!["float", "long int"]));
        assert_eq!(Kind::of("GenericList[Int,Int]"), Kind::One("ScalarList"));
        assert_eq!((Kind::of("Double"), Kind::of("None")), (Kind::One("Scalar"), Kind::One("")));
    }

    #[test]
    fn values_are_those_of_the_profiler() {
        let shown = ["true", "\"<None>\"", "\"mean\"", "1e-05", "[1, 2]"].map(written);
        assert_eq!(shown, ["True", "", "mean", "1e-05", "[1, 2]"]);
    }
}
