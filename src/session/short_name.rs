//! Names of kernels and operators as short as people tell them apart.

use std::borrow::Cow;

/// Letters of a name beyond which a table for people has it in short.
const LONG: usize = 64;

/// A name as a table for people has it: whole where it is short, else in short and no longer than that.
pub fn name_for_people(name: &str) -> Cow<'_, str> {
    if name.chars().count() <= LONG {
        return name.into();
    }
    let short = telling_name(name);
    if short.chars().count() <= LONG {
        return short;
    }
    short.chars().take(LONG - 1).chain(['…']).collect::<String>().into()
}

/// A name as short as it is still told apart: no return type, namespaces, template or call arguments, no `aten::`.
pub fn short_name(name: &str) -> &str {
    let name = retime_core::graph::operator::without_engine(name);
    if let Some(last) = last_of_mangled(name) {
        return last;
    }
    // A node that a C++ extension registers is its argument.
    let name = name.strip_prefix("torch::autograd::").unwrap_or(name);
    let name = name.strip_prefix("CppNode<").and_then(|node| node.trim_end().strip_suffix('>')).unwrap_or(name);
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

/// The last identifier of a nested name as compilers mangle it: `swap` of `_ZN3sgl4swapIfEEvPT_`.
fn last_of_mangled(name: &str) -> Option<&str> {
    let mut rest = name.strip_prefix("_ZN").or_else(|| name.strip_prefix("_Z"))?;
    let mut last = None;
    while let Some(digits) = rest.find(|c: char| !c.is_ascii_digit()).filter(|&digits| digits > 0) {
        let length: usize = rest.get(..digits)?.parse().ok()?;
        let end = digits.checked_add(length)?;
        (last, rest) = (Some(rest.get(digits..end)?), rest.get(end..)?);
    }
    last
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
    fn only_long_names_are_cut_for_people() {
        let lambda = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::AddFunctor<float> > >(int)";
        assert_eq!(name_for_people("void relu<float>(int)"), "void relu<float>(int)");
        assert_eq!(name_for_people(lambda), "elementwise_kernel<AddFunctor>");
        assert_eq!(name_for_people(&"x".repeat(LONG + 1)), "x".repeat(LONG - 1) + "…");
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
            ("torch::autograd::CppNode<SplitLookupFunction_sgd_Op>", "SplitLookupFunction_sgd_Op"),
            ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELb1EEEvPT_", "add_rmsnorm_quant_kernel"),
            ("_Z6kernelPf", "kernel"),
            ("_ZN99short", "_ZN99short"),
            ("torch::autograd::CppNode<fbgemm::Permute<at::Tensor, (&fbgemm::gpu)> >", "Permute"),
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
