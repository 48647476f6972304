//! Operands: an operator's arguments with shapes and element types.

use serde::Serialize;

use crate::units::Bytes;

/// A row of [`ExecutionGraph::operands`](super::ExecutionGraph::operands).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperandsId(pub u32);

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 64-bit float.
    Fp64,
    /// 32-bit float (tf32 is a way to compute on it, not a type).
    #[default]
    Fp32,
    /// 16-bit IEEE float.
    Fp16,
    /// bfloat16.
    Bf16,
    /// 8-bit float of either kind.
    Fp8,
    /// 64-bit integer.
    Int64,
    /// 32-bit integer.
    Int32,
    /// 16-bit integer.
    Int16,
    /// 8-bit integer.
    Int8,
    /// 4-bit integer, two to a byte.
    Int4,
    /// Boolean.
    Bool,
    /// Complex of two 32-bit floats.
    Complex64,
}

impl DType {
    /// Bits per element.
    pub fn bits(self) -> u64 {
        match self {
            Self::Fp64 | Self::Int64 | Self::Complex64 => 64,
            Self::Fp32 | Self::Int32 => 32,
            Self::Fp16 | Self::Bf16 | Self::Int16 => 16,
            Self::Fp8 | Self::Int8 | Self::Bool => 8,
            Self::Int4 => 4,
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> u64 {
        self.bits().div_ceil(8)
    }

    /// Bytes of so many elements side by side.
    pub fn bytes(self, elements: u64) -> Bytes {
        if self.bits() < 8 { Bytes(elements.div_ceil(8 / self.bits())) } else { Bytes(self.size()) * elements }
    }

    /// The type a profiler's or execution trace's type name stands for (`float`, `c10::BFloat16`, `long int`, `Float8_e4m3fn` …).
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim().trim_start_matches("c10::").trim_start_matches("at::");
        Some(match name {
            "double" | "Double" | "float64" => Self::Fp64,
            "float" | "Float" | "float32" => Self::Fp32,
            "Half" | "half" | "float16" => Self::Fp16,
            "BFloat16" | "bfloat16" => Self::Bf16,
            "long" | "long int" | "Long" | "int64" | "unsigned long" | "uint64" => Self::Int64,
            "int" | "Int" | "int32" | "unsigned int" | "uint32" => Self::Int32,
            "short" | "short int" | "Short" | "int16" => Self::Int16,
            "unsigned char" | "signed char" | "char" | "Byte" | "Char" | "int8" | "uint8" => Self::Int8,
            "bool" | "Bool" => Self::Bool,
            "c10::complex<float>" | "complex<float>" | "ComplexFloat" => Self::Complex64,
            _ if name.starts_with("Float8") || name.starts_with("float8") => Self::Fp8,
            _ => return None,
        })
    }

    /// Whether its values are whole numbers or truth values.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int64 | Self::Int32 | Self::Int16 | Self::Int8 | Self::Int4 | Self::Bool)
    }

    /// Its name in selectors and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Bool => "bool",
            Self::Complex64 => "complex64",
        }
    }
}

/// Dimensions of a tensor, by position from the outermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Axes(u32);

impl Axes {
    /// Those of `dims` along which the elements are repeated without memory of their own: `strides` says 0, in elements.
    fn expanded(dims: &[u64], strides: &[i64]) -> Self {
        if dims.len() != strides.len() {
            return Self::default();
        }
        let axes = dims.iter().zip(strides).enumerate().take(32);
        Self(axes.filter(|(_, (dim, stride))| **dim > 1 && **stride == 0).fold(0, |all, (at, _)| all | 1 << at))
    }

    /// Whether dimension `at` is one of them.
    pub fn contains(self, at: usize) -> bool {
        at < 32 && self.0 >> at & 1 == 1
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A tensor with its dimensions, outermost first; none for a zero-dimensional tensor.
    Tensor {
        /// Sizes.
        dims: Vec<u64>,
        /// Element type, when recorded.
        dtype: Option<DType>,
        /// Dimensions along which it is expanded, as far as strides were recorded.
        expanded: Axes,
    },
    /// A list of tensors.
    TensorList(Vec<Operand>),
    /// A number, list or text, as recorded (`[1, 1]`, `False`); empty when absent.
    Value(String),
}

/// An operator's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operands {
    /// Arguments in order.
    pub inputs: Vec<Operand>,
    /// Results, known from execution traces only.
    pub outputs: Vec<Operand>,
}

impl Operand {
    /// Dimensions when it is a tensor.
    pub fn dims(&self) -> Option<&[u64]> {
        match self {
            Self::Tensor { dims, .. } => Some(dims),
            _ => None,
        }
    }

    /// A tensor of `dims` whose elements each have their own place.
    pub fn tensor(dims: Vec<u64>, dtype: Option<DType>) -> Self {
        Self::Tensor { dims, dtype, expanded: Axes::default() }
    }

    /// A tensor of `dims` that lies in memory as `strides` say, in elements; each element has its own place where they are of another tensor.
    pub fn strided(dims: Vec<u64>, strides: &[i64], dtype: Option<DType>) -> Self {
        let expanded = Axes::expanded(&dims, strides);
        Self::Tensor { dims, dtype, expanded }
    }

    /// Elements of a tensor in memory, each once however often it is expanded; none for anything else.
    pub fn stored_elements(&self) -> u64 {
        let Self::Tensor { dims, expanded, .. } = self else { return 0 };
        let stored = dims.iter().enumerate().filter(|&(at, _)| !expanded.contains(at));
        stored.fold(1, |product: u64, (_, &dim)| product.saturating_mul(dim))
    }

    /// Bytes of a tensor in memory, 32 bits an element where no type was recorded, or of all in a list; none for anything else, and for
    /// zero-dimensional tensors.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Tensor { dims, dtype, .. } if !dims.is_empty() => {
                dtype.unwrap_or_default().bytes(self.stored_elements())
            }
            Self::TensorList(list) => list.iter().map(Self::bytes).sum(),
            _ => Bytes(0),
        }
    }

    /// Element type when it is a tensor that recorded one.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Self::Tensor { dtype, .. } => *dtype,
            _ => None,
        }
    }
}

impl Operands {
    /// Dimensions of argument `index` when it is a tensor.
    pub fn dims(&self, index: usize) -> Option<&[u64]> {
        self.inputs.get(index).and_then(Operand::dims)
    }

    /// Element type of what is computed: that of the first tensor argument that recorded one, of those with dimensions first. A number
    /// beside it, a tensor without dimensions, makes only integers to floats.
    pub fn dtype(&self) -> Option<DType> {
        let is_number = |operand: &&Operand| operand.dims().is_some_and(<[u64]>::is_empty);
        let of = |operand: &Operand| match operand {
            Operand::TensorList(list) => list.iter().find_map(Operand::dtype),
            other => other.dtype(),
        };
        let tensor = self.inputs.iter().filter(|operand| !is_number(operand)).find_map(of);
        let number = self.inputs.iter().filter(is_number).find_map(of);
        number.filter(|number| tensor.is_none_or(|own| own.is_integer() && !number.is_integer())).or(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_all_reason_saturate() {
        let tensor = |dims: &[u64]| Operand::tensor(dims.to_vec(), Some(DType::Fp16));
        let (small, endless) = (tensor(&[3, 5]), tensor(&[1 << 40, 1 << 40]));
        assert_eq!((small.bytes(), endless.bytes()), (Bytes(30), Bytes(u64::MAX)));
        assert_eq!(Operand::TensorList(vec![endless, small]).bytes(), Bytes(u64::MAX));
        assert_eq!((tensor(&[]).bytes(), Operand::Value("7".into()).bytes()), (Bytes(0), Bytes(0)));
    }

    #[test]
    fn a_number_beside_a_tensor_widens_only_integers() {
        let of = |dims: &[u64], dtype| Operand::tensor(dims.to_vec(), Some(dtype));
        let computed = |inputs| Operands { inputs, outputs: Vec::new() }.dtype();
        assert_eq!(computed(vec![of(&[], DType::Fp32), of(&[8], DType::Bf16)]), Some(DType::Bf16));
        assert_eq!(computed(vec![of(&[8], DType::Int64), of(&[], DType::Fp32)]), Some(DType::Fp32));
        assert_eq!(computed(vec![of(&[], DType::Int64), of(&[8], DType::Fp32)]), Some(DType::Fp32));
        assert_eq!(computed(vec![of(&[], DType::Int64)]), Some(DType::Int64));
    }
}
