//! What can be pointed at on the timeline.

use std::borrow::Cow;

use retime_core::graph::{NodeId, OperatorId};

/// A task (kernel, copy, collective, call), an operator, or a task that a scenario added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A task of the graph.
    Task(NodeId),
    /// An operator.
    Operator(OperatorId),
    /// A task that the scenario added, by its number.
    Added(u32),
}

/// Set in the keys of tasks.
const TASK: u32 = 1 << 31;
/// Set in the keys of added tasks.
const ADDED: u32 = 1 << 30;

impl Item {
    /// Its key in a density index.
    pub fn key(self) -> u32 {
        match self {
            Self::Task(node) => node.index() as u32 | TASK,
            Self::Operator(id) => id.0,
            Self::Added(number) => number | ADDED,
        }
    }

    /// The item of a key.
    pub fn from_key(key: u32) -> Self {
        match (key & TASK, key & ADDED) {
            (0, 0) => Self::Operator(OperatorId(key)),
            (0, _) => Self::Added(key & !ADDED),
            _ => Self::Task(NodeId::from(key & !TASK)),
        }
    }
}

/// A name as short as it is still told apart: no return type, namespaces, template or call arguments, no `aten::`.
pub fn short_name(name: &str) -> &str {
    let name = retime_core::graph::operator::without_engine(name);
    let (mut depth, mut start, mut end) = (0_usize, 0, name.len());
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' => {
                if depth == 0 && at > start && end == name.len() {
                    end = at;
                }
                depth += 1;
            }
            '>' if before == '-' => {}
            '>' | ')' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && before == ':' && at + 1 < name.len() => (start, end) = (at + 1, name.len()),
            _ => {}
        }
        before = c;
    }
    let bare = name.get(start..end).unwrap_or(name).trim();
    if bare.is_empty() { name } else { bare.trim_start_matches("void ") }
}

/// The short name of a kernel with what it computes where its template arguments say so:
/// `vectorized_elementwise_kernel<AddFunctor>`.
pub fn telling_name(name: &str) -> Cow<'_, str> {
    let short = short_name(name);
    let behind = short.as_ptr() as usize + short.len() - name.as_ptr() as usize;
    let arguments = name.get(behind..).and_then(|rest| rest.strip_prefix('<')).unwrap_or("");
    match functor(arguments) {
        Some(functor) => format!("{short}<{functor}>").into(),
        None => short.into(),
    }
}

/// The first function that template arguments name, those left out that only pass one on.
fn functor(arguments: &str) -> Option<&str> {
    const MARKS: [&str; 5] = ["Functor", "functor", "_kernel", "Op", "cutlass_"];
    const PASSED_ON: [&str; 6] =
        ["gpu_kernel", "ReduceOp", "BinaryFunctor", "BUnaryFunctor", "AUnaryFunctor", "func_wrapper"];
    let words = arguments.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_telling = |word: &&str| {
        MARKS.iter().any(|mark| word.contains(mark)) && !PASSED_ON.iter().any(|generic| word.starts_with(generic))
    };
    words.into_iter().find(is_telling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_back_to_their_items() {
        for item in [Item::Task(NodeId::from(7)), Item::Operator(OperatorId(7)), Item::Added(7)] {
            assert_eq!(Item::from_key(item.key()), item);
        }
    }

    #[test]
    fn names_are_shortened_to_what_tells_them_apart() {
        let cases = [
            ("void at::native::vectorized_elementwise_kernel<4, float>(int, float)", "vectorized_elementwise_kernel"),
            ("aten::linear", "linear"),
            ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"),
            ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
            ("sm90_xmma_gemm_f32f32", "sm90_xmma_gemm_f32f32"),
            ("<forward op>", "<forward op>"),
            ("ns::", "ns::"),
            ("void at::native::(anonymous namespace)::max_pool<float, int>(int)", "max_pool"),
            ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(T13)", "kernel"),
            ("nccl:all_reduce", "nccl:all_reduce"),
        ];
        for (full, short) in cases {
            assert_eq!(short_name(full), short);
        }
    }

    #[test]
    fn a_kernel_says_what_its_template_arguments_compute() {
        let cases = [
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, Array<char*, 3> >(int)",
                "vectorized_elementwise_kernel<AddFunctor>",
            ),
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor<float, \
                 float, float, at::native::MulFunctor<float> > > >(int)",
                "elementwise_kernel<MulFunctor>",
            ),
            (
                "void ns::par_kernel<PdV_kernel(bool, int)::[lambda(int) (instance 1)]>(Range, T1)",
                "par_kernel<PdV_kernel>",
            ),
            ("void dgrad_engine<float, 512, 6, false>(int, int)", "dgrad_engine"),
            ("void nchwToNhwcKernel<float, (cudnnKernelDataType_t)0>(int)", "nchwToNhwcKernel"),
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "ncclKernel_AllReduce_RING_LL_Sum_float"),
            ("aten::linear", "linear"),
        ];
        for (full, telling) in cases {
            assert_eq!(telling_name(full), telling);
        }
    }
}
