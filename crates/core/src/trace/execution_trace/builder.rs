//! Node texts → an [`ExecutionTrace`]. Both forms of a node (flat to 1.0.1, nested after) are read by one structure.

use std::borrow::Cow;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::layout::ROOT;
use super::{EtArguments, EtNode, EtNodeIndex, EtTensor, EtValue, ExecutionTrace, TensorIndex, collective, parents};
use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::{NameId, printable};
use crate::trace::{OpenError, sizes};

/// An execution trace being read.
#[derive(Debug, Default)]
pub struct Builder {
    trace: ExecutionTrace,
    tensor_ids: FxHashMap<EtTensor, TensorIndex>,
    node_ids: FxHashSet<u64>,
}

/// A node as written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    id: u64,
    #[serde(alias = "ctrl_deps")]
    parent: u64,
    rf_id: u64,
    fw_parent: u64,
    seq_id: Option<i64>,
    scope: u64,
    tid: u64,
    fw_tid: u64,
    #[serde(borrow)]
    op_schema: Cow<'a, str>,
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    input_shapes: Option<&'a RawValue>,
    #[serde(borrow)]
    input_types: Option<&'a RawValue>,
    #[serde(borrow)]
    outputs: Option<&'a RawValue>,
    #[serde(borrow)]
    output_shapes: Option<&'a RawValue>,
    #[serde(borrow)]
    output_types: Option<&'a RawValue>,
    #[serde(borrow)]
    attrs: Vec<RawAttribute<'a>>,
}

/// A named value of a nested node.
#[derive(Deserialize)]
pub(super) struct RawAttribute<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) value: &'a RawValue,
}

/// Arguments or results of a nested node.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawArguments<'a> {
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    #[serde(borrow)]
    shapes: Option<&'a RawValue>,
    #[serde(borrow)]
    types: Option<&'a RawValue>,
    #[serde(borrow)]
    strides: Option<&'a RawValue>,
}

/// The parts of an argument list, taken apart.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) values: Vec<&'a RawValue>,
    pub(super) types: Vec<Cow<'a, str>>,
}

impl Builder {
    /// Takes a member of the top level other than the nodes.
    pub fn member(&mut self, key: &str, value: &[u8]) {
        match key {
            "schema" => {
                self.trace.schema =
                    serde_json::from_slice::<String>(value).map_or_else(|_| String::new(), |s| printable(&s));
            }
            "pid" => self.trace.pid = serde_json::from_slice(value).ok(),
            _ => {}
        }
    }

    /// How many entries were seen so far.
    pub fn entries(&self) -> u64 {
        self.trace.nodes.len() as u64 + self.trace.skipped_nodes
    }

    /// Where oddities are noted.
    pub fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.trace.diagnostics
    }

    /// Counts an entry at byte `offset` that is no node.
    pub fn damaged(&mut self, offset: u64, reason: &str) {
        self.trace.skipped_nodes += 1;
        let place = Some(format!("byte {offset}"));
        self.trace
            .diagnostics
            .add(Severity::Warning, "damaged-node", "", place, || format!("{}; skipped", printable(reason)));
    }

    /// Takes a node.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn node(&mut self, text: &[u8]) -> Result<(), String> {
        let mut raw: RawNode<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let attributes = std::mem::take(&mut raw.attrs);
        for attribute in &attributes {
            raw.set(attribute);
        }
        if raw.id != 0 && self.node_ids.contains(&raw.id) {
            self.repeated(&raw);
            return Ok(());
        }
        if raw.parent == raw.id && raw.id != 0 && !raw.name.starts_with(ROOT) {
            self.warn(
                "damaged-parent",
                &raw,
                "is said to contain itself: what contains it is not known, so it may count beside what it is part of",
            );
            raw.parent = 0;
        }
        let (inputs, parts, has_sizes) = self.arguments(raw.inputs, raw.input_shapes, raw.input_types)?;
        let (outputs, _, has_output_sizes) = self.arguments(raw.outputs, raw.output_shapes, raw.output_types)?;
        if !(has_sizes && has_output_sizes) {
            self.warn("damaged-sizes", &raw, "has sizes that are no whole numbers: they are left out");
        }
        if let Some((sizes, elements)) = self.contradiction(&inputs).or_else(|| self.contradiction(&outputs)) {
            let what = format!(
                "has a tensor of {elements} elements whose sizes make {sizes}: its work follows from the sizes, \
                 what memory and collectives hold from the elements"
            );
            self.warn("contradicting-sizes", &raw, &what);
        }
        self.node_ids.insert(raw.id);
        let names = &mut self.trace.names;
        let node = EtNode {
            id: raw.id,
            parent: raw.parent,
            name: names.intern(&raw.name),
            rf_id: u32::try_from(raw.rf_id).unwrap_or_default(),
            seq_id: raw.seq_id.unwrap_or(-1),
            fw_parent: raw.fw_parent,
            tid: u32::try_from(raw.tid).unwrap_or(u32::MAX),
            fw_tid: u32::try_from(raw.fw_tid).unwrap_or(u32::MAX),
            scope: u32::try_from(raw.scope).unwrap_or(u32::MAX),
            op_schema: names.intern(&raw.op_schema),
            inputs,
            outputs,
        };
        let index = EtNodeIndex(self.trace.nodes.len() as u32);
        self.trace.nodes.push(node);
        if raw.name == "record_param_comms" {
            let found = collective::read(&attributes, &parts, &mut self.trace.names);
            self.trace.rank = self.trace.rank.or(found.rank);
            let elements = if found.args.in_elements > 0 { found.args.in_elements } else { self.elements(&inputs) };
            let mut args = found.args;
            args.in_elements = elements;
            self.trace.collectives.push((index, args));
        }
        Ok(())
    }

    /// Counts a node whose id an earlier one has: ids of nodes are theirs alone.
    fn repeated(&mut self, raw: &RawNode<'_>) {
        self.trace.skipped_nodes += 1;
        self.warn("repeated-node", raw, "has the id of a node that is there already; skipped");
    }

    fn warn(&mut self, code: &'static str, raw: &RawNode<'_>, what: &str) {
        let place = Some(format!("node {}", raw.id));
        let text = || format!("{} {what}", printable(&raw.name));
        self.trace.diagnostics.add(Severity::Warning, code, "", place, text);
    }

    /// The first tensor of an argument list whose sizes make another number of elements than was recorded of it: both numbers. One
    /// without storage of its own (undefined, sparse) has no elements recorded.
    fn contradiction(&self, run: &EtArguments) -> Option<(u64, u64)> {
        let shapes: Vec<Value> = serde_json::from_str(self.trace.names.get(run.shapes)).ok()?;
        let compare = |value: &EtValue, shape: &Value| {
            let EtValue::Tensor(index) = value else { return None };
            let elements = self.trace.tensor(*index).filter(|tensor| tensor.element_size > 0)?.elements;
            let dims: Option<Vec<u64>> = shape.as_array()?.iter().map(Value::as_u64).collect();
            let sizes = dims?.into_iter().fold(1, u64::saturating_mul);
            (sizes != elements).then_some((sizes, elements))
        };
        let mut values = self.trace.values_of(run);
        for shape in &shapes {
            let (value, rest) = values.split_first()?;
            let members = if let EtValue::List(count) = value { *count as usize } else { 0 };
            let (list, rest) = rest.split_at_checked(members)?;
            values = rest;
            let of_list = || list.iter().zip(shape.as_array()?).find_map(|(value, shape)| compare(value, shape));
            if let Some(found) = compare(value, shape).or_else(of_list) {
                return Some(found);
            }
        }
        None
    }

    /// Elements of all tensors of an argument list.
    fn elements(&self, run: &EtArguments) -> u64 {
        let tensors = self.trace.values_of(run).iter().filter_map(|value| match value {
            EtValue::Tensor(index) => self.trace.tensor(*index),
            _ => None,
        });
        tensors.map(|tensor| tensor.elements).fold(0, u64::saturating_add)
    }

    /// An argument list, its parts, and whether its sizes can be read.
    fn arguments<'a>(
        &mut self,
        flat: Option<&'a RawValue>,
        shapes: Option<&'a RawValue>,
        types: Option<&'a RawValue>,
    ) -> Result<(EtArguments, Parts<'a>, bool), String> {
        let raw = match flat {
            Some(nested) if nested.get().starts_with('{') => {
                serde_json::from_str::<RawArguments<'a>>(nested.get()).map_err(|error| error.to_string())?
            }
            values => RawArguments { values, shapes, types, strides: None },
        };
        let parts = Parts { values: list(raw.values)?, types: list(raw.types)? };
        let first = self.trace.values.len() as u32;
        for (at, value) in parts.values.iter().enumerate() {
            self.value(value, parts.types.get(at).map_or("", Cow::as_ref));
        }
        let shapes = sizes::read(raw.shapes.map_or("", RawValue::get), &parts.types);
        let run = EtArguments {
            first,
            count: self.trace.values.len() as u32 - first,
            shapes: self.trace.names.intern(&crate::trace::json::on_one_line(&shapes.text)),
            types: self.text(raw.types),
            strides: self.text(raw.strides),
        };
        Ok((run, parts, !shapes.is_damaged))
    }

    fn value(&mut self, value: &RawValue, kind: &str) {
        let text = value.get();
        if kind.starts_with("Tensor(")
            && let Some(tensor) = self.tensor(text)
        {
            self.trace.values.push(EtValue::Tensor(tensor));
        } else if kind.starts_with("GenericList[Tensor")
            && let Ok(members) = serde_json::from_str::<Vec<&RawValue>>(text)
        {
            self.trace.values.push(EtValue::List(members.len() as u32));
            for member in members {
                self.value(member, "Tensor(");
            }
        } else {
            let text = self.text(Some(value));
            self.trace.values.push(EtValue::Text(text));
        }
    }

    /// `[tensor id, storage id, offset, element count, element size, device]`.
    fn tensor(&mut self, text: &str) -> Option<TensorIndex> {
        let (id, storage, offset, elements, element_size, device): (u64, u64, u64, u64, u32, Cow<'_, str>) =
            serde_json::from_str(text).ok()?;
        let device = self.trace.names.intern(&device);
        let tensor = EtTensor { id, storage, offset, elements, element_size, device };
        let tensors = &mut self.trace.tensors;
        Some(*self.tensor_ids.entry(tensor).or_insert_with(|| {
            tensors.push(tensor);
            TensorIndex(tensors.len() as u32 - 1)
        }))
    }

    fn text(&mut self, value: Option<&RawValue>) -> NameId {
        value.map_or(NameId(0), |value| self.trace.names.intern(&crate::trace::json::on_one_line(value.get())))
    }

    /// Closes the trace that was read from `path`.
    ///
    /// # Errors
    /// [`OpenError::NoEvents`] when nothing could be used.
    pub fn finish(mut self, path: &Path) -> Result<ExecutionTrace, OpenError> {
        if self.trace.nodes.is_empty() {
            let skipped = self.trace.skipped_nodes;
            return Err(OpenError::NoEvents { path: path.to_owned(), in_file: skipped, skipped });
        }
        parents::settle(&mut self.trace);
        path.clone_into(&mut self.trace.path);
        Ok(self.trace)
    }
}

impl RawNode<'_> {
    /// Takes over an attribute that is a field of a flat node.
    fn set(&mut self, attribute: &RawAttribute<'_>) {
        let text = attribute.value.get();
        let number = || text.parse::<u64>().unwrap_or_default();
        match attribute.name.as_ref() {
            "rf_id" => self.rf_id = number(),
            "fw_parent" => self.fw_parent = number(),
            "seq_id" => self.seq_id = text.parse().ok(),
            "scope" => self.scope = number(),
            "tid" => self.tid = number(),
            "fw_tid" => self.fw_tid = number(),
            "op_schema" => self.op_schema = Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
            _ => {}
        }
    }
}

fn list<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Result<Vec<T>, String> {
    value.map_or(Ok(Vec::new()), |value| serde_json::from_str(value.get()).map_err(|error| error.to_string()))
}
