//! What `record_param_comms` nodes say of their collective: by name since schema 1.1.0, by position before.

use super::builder::{Parts, RawAttribute};
use crate::intern::NameTable;
use crate::trace::CollectiveArgs;

/// A collective, and this process's rank where it is told.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The collective.
    pub(super) args: CollectiveArgs,
    /// The rank in its group.
    pub(super) rank: Option<u32>,
}

/// Reads the collective of a node.
pub(super) fn read(attributes: &[RawAttribute<'_>], parts: &Parts<'_>, names: &mut NameTable) -> Found {
    let mut found = positional(parts, names);
    for attribute in attributes {
        let text = attribute.value.get();
        let mut name = || names.intern(&serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned()));
        let number = || text.parse::<u64>().unwrap_or_default();
        match attribute.name.as_ref() {
            "collective_name" => found.args.name = name(),
            "dtype" => found.args.dtype = name(),
            "in_msg_nelems" => found.args.in_elements = number(),
            "out_msg_nelems" => found.args.out_elements = number(),
            "in_split_size" => found.args.in_split = name(),
            "out_split_size" => found.args.out_split = name(),
            "pg_name" => found.args.group = name(),
            "pg_size" => found.args.group_size = u32::try_from(number()).unwrap_or_default(),
            _ => {}
        }
    }
    found
}

/// `[tensors,] sequence, group, rank, "name", input splits, output splits [, …, group size]`.
fn positional(parts: &Parts<'_>, names: &mut NameTable) -> Found {
    let Some(at) = parts.types.iter().position(|kind| kind == "String").filter(|at| *at >= 3) else {
        return Found::default();
    };
    let text = |at: usize| parts.values.get(at).map_or("", |value| value.get());
    let last = parts.values.len() - 1;
    let name = serde_json::from_str::<String>(text(at)).unwrap_or_default();
    // `["0", "default_pg"]` since 1.0.3, a pointer before.
    let group =
        serde_json::from_str::<(String, String)>(text(at - 2)).map_or_else(|_| text(at - 2).to_owned(), |g| g.0);
    Found {
        args: CollectiveArgs {
            name: names.intern(&name),
            group: names.intern(&group),
            sequence: text(at - 3).parse().unwrap_or_default(),
            in_split: names.intern(text(at + 1)),
            out_split: names.intern(text(at + 2)),
            group_size: if last > at + 2 { text(last).parse().unwrap_or_default() } else { 0 },
            ..CollectiveArgs::default()
        },
        rank: text(at - 1).parse().ok(),
    }
}
