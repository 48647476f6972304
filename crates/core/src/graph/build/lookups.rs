//! What the gradient of a table-batched lookup tells of its forward operator: profilers before 2024 recorded no numbers among
//! arguments, so that elements per row stand only in the dimensions of the gradient.

use crate::graph::{Operand, Operands, Operator, lookup_range, lookup_total_at};
use crate::intern::NameTable;

use super::operators::OperatorTable;

/// Writes the elements of a row of all tables, `dims[1]` of the gradient `[batch, total]`, into the arguments of lookups that
/// recorded none.
///
/// # Complexity
/// O(operators).
pub(super) fn complete(table: &mut OperatorTable, names: &NameTable) {
    let is_gradient: Vec<bool> = names.iter().map(|(_, name)| name.contains("SplitLookupFunction")).collect();
    let total_at: Vec<Option<usize>> =
        names.iter().map(|(_, name)| lookup_total_at(name.rsplit("::").next().unwrap_or(name))).collect();
    if !is_gradient.contains(&true) {
        return;
    }
    for index in 0..table.list.len() {
        let gradient = table.list[index];
        if !is_gradient.get(gradient.name.0 as usize).is_some_and(|&is| is) {
            continue;
        }
        let Some(&[_, total]) = operands(table, &gradient).and_then(|list| list.dims(0)) else { continue };
        let Some((at, argument)) = lookup_of(table, &gradient, &total_at) else { continue };
        let Some(mut completed) = operands(table, &table.list[at]).cloned() else { continue };
        if let Some(unrecorded @ Operand::Value(_)) = completed.inputs.get_mut(argument)
            && *unrecorded == Operand::Value(String::new())
        {
            *unrecorded = Operand::Value(total.to_string());
            table.list[at].operands = Some(table.operands(&completed));
        }
    }
}

fn operands<'a>(table: &'a OperatorTable, operator: &Operator) -> Option<&'a Operands> {
    table.operands.get(operator.operands?.0 as usize)
}

/// The lookup that a gradient belongs to, and where its total stands.
fn lookup_of(table: &OperatorTable, gradient: &Operator, total_at: &[Option<usize>]) -> Option<(usize, usize)> {
    let argument = |operator: &Operator| total_at.get(operator.name.0 as usize).copied().flatten();
    lookup_range(&table.list, gradient.forward?).find_map(|at| Some((at, argument(&table.list[at])?)))
}

#[cfg(test)]
mod tests {
    use crate::graph::Operand;
    use crate::graph::build::tests::graph_of;
    use crate::trace::load_bytes;

    /// The lookup's number of elements, in a trace whose lookup recorded `total` and whose gradient has `columns`.
    fn total(total: &str, columns: u64) -> Option<Operand> {
        let operator = |name: &str, (ts, dur, thread): (u32, u32, u32), args: &str| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{thread},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
            )
        };
        let lookup = format!(
            r#""Input Dims":[[0],[640],[0],[0,0],[3],[3],[4],[],[],[4],[],[64],[25]],
            "Input type":["float","float","float","float","int","long","int","Int","Int","long","Int","long","long"],
            "Concrete Inputs":["","","","","","","","{total}","","","","",""],"Sequence number":7"#
        );
        let gradient =
            format!(r#""Input Dims":[[8,{columns}]],"Input type":["float"],"Sequence number":7,"Fwd thread id":1"#);
        let text = [
            operator("fbgemm::split_embedding_codegen_lookup_adagrad_function", (10, 20, 1), &lookup),
            operator("SplitLookupFunction_Adagrad_OpBackward", (50, 20, 2), &gradient),
        ];
        let trace = load_bytes(format!(r#"{{"traceEvents":[{}]}}"#, text.join(",")).as_bytes(), "made.json").unwrap();
        let graph = graph_of(&[trace]);
        let lookup = graph.operators.iter().find(|one| graph.names.get(one.name).contains("lookup"))?;
        graph.operands[lookup.operands?.0 as usize].inputs.get(7).cloned()
    }

    #[test]
    fn a_gradient_tells_the_row_of_a_lookup_that_recorded_none() {
        assert_eq!(total("", 48), Some(Operand::Value("48".to_owned())));
    }

    #[test]
    fn what_was_recorded_stays() {
        assert_eq!(total("96", 48), Some(Operand::Value("96".to_owned())));
    }
}
