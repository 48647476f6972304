//! Strides of convolutions that recorded none: profilers before 2022 recorded no numbers among arguments, so that how far a filter
//! moves stands only in the dimensions of the result, which its gradient has, and what follows reads.

use rustc_hash::FxHashMap;

use crate::graph::{ConvArguments, Operand, Operands, Operator, OperatorId, Phase};
use crate::intern::NameTable;

use super::operators::OperatorTable;

/// Writes strides and padding into the arguments of convolutions that recorded no strides, where the size of the result is known and a
/// whole stride explains it.
///
/// # Complexity
/// O(operators).
pub(super) fn complete(table: &mut OperatorTable, names: &NameTable) {
    let arguments: Vec<Option<ConvArguments>> =
        names.iter().map(|(_, name)| ConvArguments::of(name.rsplit("::").next().unwrap_or(name))).collect();
    if arguments.iter().all(Option::is_none) {
        return;
    }
    let results = Results::of(table, names, &arguments);
    for index in 0..table.list.len() {
        let Some(at) = arguments_of(&table.list[index], &arguments) else { continue };
        let Some(operands) = operands(table, &table.list[index]).filter(|it| is_unrecorded(it, at.stride)) else {
            continue;
        };
        let moved = results.of_operator(table, index, at).and_then(|result| Moved::of(operands, at, result));
        let Some(moved) = moved else { continue };
        let mut completed = operands.clone();
        moved.write(&mut completed, at);
        table.list[index].operands = Some(table.operands(&completed));
    }
}

fn arguments_of<'a>(operator: &Operator, arguments: &'a [Option<ConvArguments>]) -> Option<&'a ConvArguments> {
    arguments.get(operator.name.0 as usize)?.as_ref()
}

fn operands<'a>(table: &'a OperatorTable, operator: &Operator) -> Option<&'a Operands> {
    table.operands.get(operator.operands?.0 as usize)
}

fn is_unrecorded(operands: &Operands, place: usize) -> bool {
    matches!(operands.inputs.get(place), Some(Operand::Value(text)) if text.is_empty())
}

/// What tells the dimensions of results of convolutions.
struct Results<'a> {
    arguments: &'a [Option<ConvArguments>],
    /// By outermost convolution operator, the operator that its gradient comes into.
    gradients: FxHashMap<OperatorId, OperatorId>,
}

impl<'a> Results<'a> {
    fn of(table: &OperatorTable, names: &NameTable, arguments: &'a [Option<ConvArguments>]) -> Self {
        let is_node: Vec<bool> = names.iter().map(|(_, name)| is_autograd_node(name)).collect();
        let mut results = Self { arguments, gradients: FxHashMap::default() };
        for (index, operator) in table.list.iter().enumerate() {
            let is_node = is_node.get(operator.name.0 as usize).is_some_and(|&is| is);
            let forward = operator.forward.filter(|_| is_node && operator.phase == Phase::Backward);
            let Some(forward) = forward.and_then(|forward| results.outermost(table, forward)) else { continue };
            if first_tensor(table, operator).is_some() {
                results.gradients.entry(forward).or_insert(OperatorId(index as u32));
            }
        }
        results
    }

    /// The outermost convolution around a convolution operator; `None` for other operators.
    fn outermost(&self, table: &OperatorTable, id: OperatorId) -> Option<OperatorId> {
        let operator = |id: OperatorId| table.list.get(id.0 as usize);
        let is_forward = |&id: &OperatorId| {
            let arguments = operator(id).and_then(|one| arguments_of(one, self.arguments));
            arguments.is_some_and(|arguments| arguments.output.is_none())
        };
        std::iter::successors(Some(id), |&id| operator(id)?.parent).take_while(is_forward).last()
    }

    /// The dimensions of the result of the convolution at `index`: those of its gradient, else those of what the next operator on
    /// its thread reads.
    fn of_operator<'t>(&self, table: &'t OperatorTable, index: usize, at: &ConvArguments) -> Option<&'t [u64]> {
        if let Some(gradient) = at.output {
            return operands(table, &table.list[index])?.dims(gradient);
        }
        let outermost = self.outermost(table, OperatorId(index as u32))?;
        let gradient = self.gradients.get(&outermost).map(|id| &table.list[id.0 as usize]);
        gradient.and_then(|gradient| first_tensor(table, gradient)).or_else(|| self.consumed(table, outermost))
    }

    /// What the next operator with a tensor reads, unless that is a convolution, which may be beside this one and not behind it.
    fn consumed<'t>(&self, table: &'t OperatorTable, outermost: OperatorId) -> Option<&'t [u64]> {
        let own = table.list.get(outermost.0 as usize)?;
        let behind = table.list.get(own.subtree_end.0 as usize..)?.iter();
        let mut behind = behind.take_while(|next| next.lane == own.lane).take(FOLLOWING);
        let (next, read) = behind.find_map(|next| Some((next, first_tensor(table, next)?)))?;
        arguments_of(next, self.arguments).is_none().then_some(read)
    }
}

/// How many operators behind a convolution are looked at for one with a tensor.
const FOLLOWING: usize = 4;

/// Whether an operator is a node of the backward pass, whose first argument is the gradient of a result.
fn is_autograd_node(name: &str) -> bool {
    let name = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    name.ends_with("Backward") && !name.starts_with("aten::") && !name.contains("evaluate_function")
}

/// Dimensions of the first argument that is a tensor of some.
fn first_tensor<'t>(table: &'t OperatorTable, operator: &Operator) -> Option<&'t [u64]> {
    let dims = operands(table, operator)?.inputs.iter().filter_map(Operand::dims);
    dims.into_iter().find(|dims| dims.len() > 1)
}

/// How a filter moves over an image.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Moved {
    strides: Vec<u64>,
    padding: Vec<u64>,
}

impl Moved {
    /// The strides that explain `result`, a tensor with the images and channels of the convolution's result.
    fn of(operands: &Operands, at: &ConvArguments, result: &[u64]) -> Option<Self> {
        let (input, weight) = (operands.dims(at.input)?, operands.dims(at.weight)?);
        let is_result = result.len() == input.len() && weight.len() == input.len() && input.len() > 2;
        if !is_result || result[0] != input[0] || result[1] != weight[0] {
            return None;
        }
        let axes = input.iter().zip(weight).zip(result).skip(2);
        let moved: Option<Vec<(u64, u64)>> = axes.map(|((&size, &taps), &out)| along(size, taps, out)).collect();
        let (strides, padding) = moved?.into_iter().unzip();
        Some(Self { strides, padding })
    }

    fn write(&self, operands: &mut Operands, at: &ConvArguments) {
        for (place, numbers) in [(at.stride, &self.strides), (at.padding, &self.padding)] {
            if is_unrecorded(operands, place) {
                operands.inputs[place] = Operand::Value(format!("{numbers:?}"));
            }
        }
    }
}

/// Stride and padding along an axis of `size` elements, of which a filter of `taps` leaves `out`: stride 1 or the ratio of the sizes,
/// with the usual padding where that explains it.
fn along(size: u64, taps: u64, out: u64) -> Option<(u64, u64)> {
    let (reach, out) = (taps.checked_sub(1)?, Some(out).filter(|&out| out > 0)?);
    let usual = if taps.is_multiple_of(2) { 0 } else { reach / 2 };
    let strides = [1, (size + out / 2) / out];
    let explains = |&(stride, padding): &(u64, u64)| {
        let room = size.checked_add(2 * padding).and_then(|padded| padded.checked_sub(taps));
        stride > 0 && room.is_some_and(|room| room / stride + 1 == out)
    };
    let with = |padding: u64| strides.map(|stride| (stride, padding));
    with(usual).into_iter().chain((0..=reach / 2).rev().flat_map(with)).find(explains)
}

#[cfg(test)]
mod tests {
    use super::along;
    use crate::graph::Operand;
    use crate::graph::build::tests::graph_of;
    use crate::trace::load_bytes;

    fn operator(name: &str, (ts, thread): (u32, u32), args: &str) -> String {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{thread},"ts":{ts},"dur":10,"args":{{{args}}}}}"#
        )
    }

    /// The strides of the convolution of an image of 224 with 7 taps, of which `stride` was recorded, in a trace with `others`.
    fn strides(stride: &str, others: &[String]) -> Operand {
        let args = format!(
            r#""Input Dims":[[32,3,224,224],[64,3,7,7],[],[],[],[],[]],"Input type":["float","float","","","","",""],
            "Concrete Inputs":["","","","{stride}","","",""],"Sequence number":7"#
        );
        let conv = operator("aten::conv2d", (10, 1), &args);
        let text = std::iter::once(conv).chain(others.iter().cloned()).collect::<Vec<String>>().join(",");
        let trace = load_bytes(format!(r#"{{"traceEvents":[{text}]}}"#).as_bytes(), "made.json").unwrap();
        let graph = graph_of(&[trace]);
        let conv = graph.operators.iter().find(|one| graph.names.get(one.name) == "aten::conv2d").unwrap();
        graph.operands[conv.operands.unwrap().0 as usize].inputs[3].clone()
    }

    fn of_size(name: &str, at: (u32, u32), size: u32, more: &str) -> String {
        operator(name, at, &format!(r#""Input Dims":[[32,64,{size},{size}]],"Input type":["float"]{more}"#))
    }

    fn gradient(size: u32) -> String {
        of_size("CudnnConvolutionBackward", (90, 2), size, r#","Sequence number":7,"Fwd thread id":1"#)
    }

    fn value(text: &str) -> Operand {
        Operand::Value(text.to_owned())
    }

    #[test]
    fn the_gradient_of_a_convolution_tells_its_strides() {
        let misleading = of_size("aten::relu", (30, 1), 224, "");
        assert_eq!(strides("", &[misleading, gradient(112)]), value("[2, 2]"));
    }

    #[test]
    fn what_the_next_operator_reads_tells_the_strides_where_no_gradient_does() {
        assert_eq!(strides("", &[of_size("aten::relu", (30, 1), 112, "")]), value("[2, 2]"));
    }

    #[test]
    fn what_no_whole_stride_explains_and_what_is_no_result_tell_nothing() {
        assert_eq!(strides("", &[of_size("aten::relu", (30, 1), 150, "")]), value(""));
        assert_eq!(
            strides("", &[operator("aten::relu", (30, 1), r#""Input Dims":[[32,65,112,112]],"Input type":["float"]"#)]),
            value("")
        );
        assert_eq!(strides("", &[of_size("aten::conv2d", (30, 1), 112, "")]), value(""));
        assert_eq!(strides("", &[]), value(""));
    }

    #[test]
    fn recorded_strides_stay() {
        assert_eq!(strides("[4, 4]", &[gradient(112)]), value("[4, 4]"));
    }

    #[test]
    fn strides_are_whole_and_padding_the_usual_one_where_it_can_be() {
        assert_eq!(
            [along(224, 7, 112), along(56, 1, 28), along(56, 3, 56)].map(Option::unwrap),
            [(2, 3), (2, 0), (1, 1)]
        );
        assert_eq!(
            [along(224, 16, 14), along(28, 5, 24), along(224, 11, 55)].map(Option::unwrap),
            [(16, 0), (1, 0), (4, 3)]
        );
        assert_eq!([along(28, 2, 56), along(28, 3, 0), along(4, 9, 7)], [None; 3]);
    }
}
