//! Rows → operators with shapes, as an execution trace has them.

use serde_json::{Value, json};

use super::Wrong;
use super::rows::{Cell, Row};
use crate::trace::MODULE_CALL;
use crate::trace::execution_trace::Builder;
use crate::units::{Bytes, elements};

/// The id of the range around everything.
const ROOT: u64 = 2;

/// A tensor of the network.
#[derive(Clone, Debug)]
struct Tensor {
    id: u64,
    dims: Vec<u64>,
}

/// An argument's value, shape and type, as execution traces write them.
type Argument = (Value, Value, String);

/// Types of elements as tables and as PyTorch call them, with their bytes.
const TYPES: [(&str, &str, u64); 3] = [("fp32", "float", 4), ("fp16", "c10::Half", 2), ("bf16", "c10::BFloat16", 2)];

/// Algorithms of convolutions.
const ALGORITHMS: [&str; 6] = ["direct", "implicit-gemm", "im2col", "winograd", "fft", "best"];

struct Network {
    builder: Builder,
    next: u64,
    dtype: (&'static str, u64),
}

/// The forward pass of `rows`.
pub(super) fn execution_trace(rows: &[Row]) -> Result<Builder, Wrong> {
    let mut network = Network { builder: Builder::default(), next: ROOT + 1, dtype: ("float", 4) };
    network.builder.member("schema", b"\"layers\"");
    network.range("[pytorch|profiler|execution_trace|thread]", ROOT, 1).map_err(|reason| at_start(&reason))?;
    let mut flowing: Option<Tensor> = None;
    for row in rows {
        let input = match row.get("input") {
            Some(cell) => Some(network.tensor(dims(cell)?)),
            None => flowing.take(),
        };
        let Some(input) = input else { return Err(row.need("type")?.wrong("the first layer needs `input`")) };
        flowing = Some(network.layer(row, &input)?);
    }
    if rows.is_empty() {
        return Err(at_start("there is no layer"));
    }
    Ok(network.builder)
}

fn at_start(reason: &str) -> Wrong {
    Wrong { line: 1, column: 1, reason: reason.to_owned() }
}

/// `NxCxHxW`, or `NxC` for what is already flat.
fn dims(cell: &Cell) -> Result<Vec<u64>, Wrong> {
    let dims = cell.numbers(1)?;
    if matches!(dims.len(), 2 | 4) { Ok(dims) } else { Err(cell.wrong("expected NxCxHxW, or NxC")) }
}

/// Height and width: one number stands for both.
fn pair(row: &Row, key: &str, least: u64, otherwise: u64) -> Result<[u64; 2], Wrong> {
    let Some(cell) = row.get(key) else { return Ok([otherwise; 2]) };
    match cell.numbers(least)?[..] {
        [both] => Ok([both; 2]),
        [height, width] => Ok([height, width]),
        _ => Err(cell.wrong("expected one number, or two joined by x")),
    }
}

fn number(cell: &Cell) -> Result<u64, Wrong> {
    match cell.numbers(1)?[..] {
        [one] => Ok(one),
        _ => Err(cell.wrong("expected one number")),
    }
}

/// That a layer which reads all of its input at once has no cell of a window or of groups, unless it says that there is none.
fn has_no_window(row: &Row) -> Result<(), Wrong> {
    for (key, least, none) in [("kernel", 1, 1), ("stride", 1, 1), ("padding", 0, 0), ("groups", 1, 1)] {
        let Some(cell) = row.get(key) else { continue };
        if cell.numbers(least)?.iter().any(|&number| number != none) {
            let text = &cell.text;
            let reason =
                format!("a linear layer has no {key}, every output reads all of the input: {text} says otherwise");
            return Err(cell.wrong(reason));
        }
    }
    Ok(())
}

/// The window that slides over an image.
struct Window {
    kernel: [u64; 2],
    stride: [u64; 2],
    padding: [u64; 2],
    out: [u64; 2],
}

fn window(row: &Row, input: &[u64]) -> Result<Window, Wrong> {
    let kernel_cell = row.need("kernel")?;
    let kernel = pair(row, "kernel", 1, 1)?;
    let (stride, padding) = (pair(row, "stride", 1, 1)?, pair(row, "padding", 0, 0)?);
    let &[_, _, height, width] = input else {
        return Err(kernel_cell.wrong("what comes in is no image: a window needs NxCxHxW"));
    };
    let mut out = [0; 2];
    for (axis, size) in [height, width].into_iter().enumerate() {
        let padded = size + 2 * padding[axis];
        let room = padded.checked_sub(kernel[axis]);
        let room =
            room.ok_or_else(|| kernel_cell.wrong(format!("a kernel of {} on {padded} with padding", kernel[axis])))?;
        out[axis] = room / stride[axis] + 1;
    }
    Ok(Window { kernel, stride, padding, out })
}

impl Network {
    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn tensor(&mut self, dims: Vec<u64>) -> Tensor {
        Tensor { id: self.id(), dims }
    }

    fn range(&mut self, name: &str, id: u64, parent: u64) -> Result<(), String> {
        let node = json!({"name": name, "id": id, "rf_id": id, "parent": parent, "tid": 1, "scope": 7});
        self.builder.node(node.to_string().as_bytes())
    }

    /// Adds the operator of a layer; what it gives.
    fn layer(&mut self, row: &Row, input: &Tensor) -> Result<Tensor, Wrong> {
        let kind = row.need("type")?;
        if let Some(cell) = row.get("dtype") {
            let known = TYPES.iter().find(|(name, ..)| *name == cell.text);
            let &(_, name, bytes) = known.ok_or_else(|| cell.wrong("expected fp32, fp16 or bf16"))?;
            self.dtype = (name, bytes);
        }
        let dims = &input.dims;
        let same = || dims.clone();
        let kind_name = kind.text.to_lowercase();
        let (operator, arguments, out) = match kind_name.as_str() {
            "conv" => return self.conv(row, input),
            "linear" | "fc" => return self.linear(row, input),
            "maxpool" | "pool" => return self.pool(row, input, "aten::max_pool2d_with_indices"),
            "avgpool" => return self.pool(row, input, "aten::avg_pool2d"),
            "sigmoid" => ("aten::sigmoid", vec![self.shown(input)], same()),
            "relu" => ("aten::relu", vec![self.shown(input)], same()),
            "softmax" => (
                "aten::_softmax",
                vec![self.shown(input), whole(1), (json!(false), json!([]), "Bool".to_owned())],
                same(),
            ),
            "dropout" => {
                ("aten::native_dropout", vec![self.shown(input), (json!(0.5), json!([]), "Double".to_owned())], same())
            }
            "norm" => {
                let scale = self.tensor(vec![dims[1]]);
                let (input, scale) = (self.shown(input), self.shown(&scale));
                ("aten::native_batch_norm", vec![input, scale.clone(), scale.clone(), scale.clone(), scale], same())
            }
            "add" => ("aten::add", vec![self.shown(input), self.shown(input)], same()),
            _ => {
                let expected =
                    "conv, linear or fc, relu, sigmoid, maxpool or pool, avgpool, norm, softmax, dropout or add";
                return Err(kind.wrong(format!("no layer `{}`; expected {expected}", kind.text)));
            }
        };
        self.operator(row, operator, &arguments, out)
    }

    fn conv(&mut self, row: &Row, input: &Tensor) -> Result<Tensor, Wrong> {
        let window = window(row, &input.dims)?;
        let filters = number(row.need("filters")?)?;
        let groups = row.get("groups").map_or(Ok(1), number)?;
        let channels = input.dims[1];
        if let Some(cell) =
            row.get("groups").filter(|_| !channels.is_multiple_of(groups) || !filters.is_multiple_of(groups))
        {
            return Err(cell.wrong(format!("{channels} channels and {filters} filters are not divided by {groups}")));
        }
        let weight = self.tensor(vec![filters, channels / groups, window.kernel[0], window.kernel[1]]);
        let bias = self.tensor(vec![filters]);
        let mut arguments = vec![self.shown(input), self.shown(&weight), self.shown(&bias)];
        arguments.extend([list(window.stride), list(window.padding), list([1; 2]), whole(groups)]);
        arguments.extend(row.get("algorithm").map(algorithm).transpose()?);
        self.operator(row, "aten::conv2d", &arguments, vec![input.dims[0], filters, window.out[0], window.out[1]])
    }

    fn linear(&mut self, row: &Row, input: &Tensor) -> Result<Tensor, Wrong> {
        has_no_window(row)?;
        let filters = number(row.need("filters")?)?;
        let (batch, features) = (input.dims[0], elements(&input.dims[1..]));
        let flat = Tensor { id: input.id, dims: vec![batch, features] };
        let (bias, weight) = (self.tensor(vec![filters]), self.tensor(vec![features, filters]));
        let arguments = vec![self.shown(&bias), self.shown(&flat), self.shown(&weight), whole(1), whole(1)];
        self.operator(row, "aten::addmm", &arguments, vec![batch, filters])
    }

    fn pool(&mut self, row: &Row, input: &Tensor, operator: &str) -> Result<Tensor, Wrong> {
        let window = window(row, &input.dims)?;
        let arguments = vec![self.shown(input), list(window.kernel), list(window.stride), list(window.padding)];
        self.operator(row, operator, &arguments, vec![input.dims[0], input.dims[1], window.out[0], window.out[1]])
    }

    /// A tensor as an argument.
    fn shown(&self, tensor: &Tensor) -> Argument {
        let value = json!([tensor.id, tensor.id, 0, elements(&tensor.dims), self.dtype.1, ""]);
        (value, json!(tensor.dims), format!("Tensor({})", self.dtype.0))
    }

    /// Adds an operator inside a range: the call of a module where the layer has a name.
    fn operator(&mut self, row: &Row, name: &str, arguments: &[Argument], out: Vec<u64>) -> Result<Tensor, Wrong> {
        let kind = row.need("type")?;
        let all = std::iter::once(json!(out)).chain(arguments.iter().map(|it| it.1.clone()));
        if let Some(dims) = all.into_iter().find(|dims| is_beyond(dims, self.dtype.1)) {
            let dims: Vec<String> = dims.as_array().into_iter().flatten().map(ToString::to_string).collect();
            return Err(kind.wrong(format!("a tensor of {} is larger than any memory", dims.join("x"))));
        }
        let layer = self.id();
        let named = row.get("name").map(|cell| format!("{MODULE_CALL}{}", cell.text));
        self.range(named.as_ref().unwrap_or(&kind.text), layer, ROOT).map_err(|it| kind.wrong(it))?;
        let given = self.tensor(out);
        let (value, shape, element) = self.shown(&given);
        let id = self.id();
        let column = |pick: fn(&Argument) -> Value| arguments.iter().map(pick).collect::<Vec<Value>>();
        let node = json!({
            "name": name, "id": id, "rf_id": id, "parent": layer, "tid": 1, "scope": 0,
            "inputs": column(|it| it.0.clone()), "input_shapes": column(|it| it.1.clone()),
            "input_types": column(|it| json!(it.2)),
            "outputs": [value], "output_shapes": [shape], "output_types": [element],
        });
        self.builder.node(node.to_string().as_bytes()).map_err(|reason| kind.wrong(reason))?;
        Ok(given)
    }
}

/// Whether a tensor of these dimensions is larger than what is told of anywhere.
fn is_beyond(dims: &Value, bytes: u64) -> bool {
    let sizes = dims.as_array().into_iter().flatten().filter_map(Value::as_u64);
    sizes.map(|size| size as f64).product::<f64>() * bytes as f64 > Bytes::MOST.0 as f64
}

/// The algorithm of a convolution as an argument, written as the edit of that name writes it.
fn algorithm(cell: &Cell) -> Result<Argument, Wrong> {
    let name = cell.text.as_str();
    if !ALGORITHMS.contains(&name) {
        return Err(cell.wrong(format!("no algorithm `{name}`; expected {}", ALGORITHMS.join(", "))));
    }
    Ok((json!(format!("conv-algorithm={name}")), json!([]), "String".to_owned()))
}

/// A whole number as an argument.
fn whole(value: u64) -> Argument {
    (json!(value), json!([]), "Int".to_owned())
}

/// Two whole numbers as an argument.
fn list(values: [u64; 2]) -> Argument {
    (json!(values), json!([[], []]), "GenericList[Int,Int]".to_owned())
}
