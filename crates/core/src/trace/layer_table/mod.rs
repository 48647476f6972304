//! A table of layers, in CSV or TOML, as the execution trace of one forward pass [Kakrannava 2024, Table I].
//!
//! Each layer takes what the one before gives, unless its row names its own input.

mod nodes;
mod rows;

use std::path::Path;

use super::format::{Format, Loaded, Reading};
use super::{ExecutionTrace, OpenError, OpenOptions, naming, sniff};

/// Tables of layers. What a table was predicted to take goes by its name too, as JSON.
pub(super) const FORMAT: Format = Format { endings: &[], is: is_layer_table, reading: Reading::Whole(read, 60) };

/// By the ending of the name, unless the content is known to be something else.
fn is_layer_table(head: &[u8], name: &Path) -> bool {
    let ending = name.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let is_text = |error: OpenError| matches!(error, OpenError::NotATrace { found: sniff::PLAIN_TEXT, .. });
    let is_json = head.trim_ascii_start().starts_with(b"{");
    matches!(ending.as_deref(), Some("csv" | "toml")) && !is_json && sniff::not_a_trace(head, name).is_none_or(is_text)
}

/// What is wrong in a table, and where.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    line: usize,
    column: usize,
    reason: String,
}

fn read(bytes: &[u8], path: &Path, _: &OpenOptions) -> Result<Vec<Loaded>, OpenError> {
    Ok(vec![Loaded::Execution(Box::new(forward_pass(bytes, path)?))])
}

/// The forward pass of the layers in `bytes`.
///
/// # Errors
/// [`OpenError::Layers`] with line and column of the first cell that cannot be used.
fn forward_pass(bytes: &[u8], path: &Path) -> Result<ExecutionTrace, OpenError> {
    let text = String::from_utf8_lossy(bytes);
    let is_toml = naming::unpacked(path).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
    let rows = if is_toml { rows::from_toml(&text) } else { rows::from_csv(&text) };
    let trace = rows.and_then(|rows| nodes::execution_trace(&rows));
    let wrong = |Wrong { line, column, reason }| OpenError::Layers { path: path.to_owned(), line, column, reason };
    trace.map_err(wrong)?.finish(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, text: &str) -> String {
        forward_pass(text.as_bytes(), Path::new(name)).unwrap_err().to_string()
    }

    fn shapes(name: &str, text: &str) -> Vec<(String, String)> {
        let trace = forward_pass(text.as_bytes(), Path::new(name)).unwrap();
        let operators = trace.nodes.iter().filter(|node| node.scope == 0);
        let text = |id| trace.names.get(id).to_owned();
        operators.map(|node| (text(node.name), text(node.outputs.shapes))).collect()
    }

    const CSV: &str = "name, type, input, filters, kernel, stride, padding\n# AlexNet's first two\n\
                       conv1, conv, 1x3x224x224, 64, 11, 4, 2\npool1, maxpool, , , 3, 2\nfc, linear, , 10\n";

    #[test]
    fn a_layer_takes_what_the_one_before_gives() {
        let expected = [
            ("aten::conv2d", "[[1,64,55,55]]"),
            ("aten::max_pool2d_with_indices", "[[1,64,27,27]]"),
            ("aten::addmm", "[[1,10]]"),
        ];
        assert_eq!(shapes("a.csv", CSV), expected.map(|(name, dims)| (name.to_owned(), dims.to_owned())));
    }

    #[test]
    fn both_forms_say_the_same() {
        let toml = "[[layer]]\nname = 'conv1'\ntype = 'conv'\ninput = [1, 3, 224, 224]\nfilters = 64\nkernel = [11, 11]\n\
                    stride = 4\npadding = 2\n[[layer]]\ntype = 'maxpool'\nkernel = 3\nstride = 2\n[[layer]]\n\
                    type = 'linear'\nfilters = 10\n";
        assert_eq!(shapes("a.toml", toml), shapes("a.csv", CSV));
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_column() {
        for (table, said) in [
            ("type,filters\nconv,64", "a.csv: line 2, column 1: the first layer needs `input`"),
            ("type,input\nconv,1x3x8x8", "a.csv: line 2, column 1: this layer needs `kernel`"),
            (
                "type,input\n relu,1x3xabc",
                "a.csv: line 2, column 7: `1x3xabc`: expected whole numbers from 1, joined by x",
            ),
            ("type,input\nrelu,1x3\nfold", "a.csv: line 3, column 1: no layer `fold`"),
            ("type,colour\nrelu,red", "a.csv: line 1, column 6: `colour` is nothing a layer has"),
            ("type,input\nrelu,1x3,5", "a.csv: line 2, column 10: `5` stands under no title"),
            ("type,input,kernel\nmaxpool,1x3x4x4,9", "a.csv: line 2, column 17: a kernel of 9 on 4 with padding"),
            ("a,b\n1,2", "a.csv: line 1, column 1: expected a line of titles with `type` among them"),
            ("type,input\nrelu,1x9999999999", "a.csv: line 2, column 6: `1x9999999999`: a size beyond 2147483648"),
            (
                "type,input,filters,kernel,padding\nconv,1x3x224x224,64,11,1000000000",
                "a.csv: line 2, column 1: a tensor of 1x64x2000000214x2000000214 is larger than any memory",
            ),
            (
                "type,input\nrelu,1000000x3x100000x100000",
                "a.csv: line 2, column 1: a tensor of 1000000x3x100000x100000 is larger than any memory",
            ),
            ("type,input\n", "a.csv: line 1, column 1: there is no layer"),
            ("type,filters,input,filters\n", "a.csv: line 1, column 20: a second column `filters`"),
            ("type,input,filters,groups\nlinear,32x64,8,4", "a.csv: line 2, column 16: a linear layer has no groups"),
            ("type,input,filters,kernel\nfc,32x64,8,3x1", "a.csv: line 2, column 12: a linear layer has no kernel"),
            ("type,input,filters,stride\nfc,32x64,8,2", "a.csv: line 2, column 12: a linear layer has no stride"),
            ("type,input,filters,padding\nfc,32x64,8,1", "a.csv: line 2, column 12: a linear layer has no padding"),
        ] {
            let found = wrong("a.csv", table);
            assert!(found.starts_with(said), "{found}");
        }
        let found = wrong("a.toml", "[[layer]]\ntype = 'relu'\ninput = 'x'\n");
        assert!(found.starts_with("a.toml: line 3, column 9: `x`: expected whole numbers"), "{found}");
        let found = wrong("a.toml", "[[layer]]\ntype = 'relu'\nsize = 3\n");
        assert!(found.starts_with("a.toml: line 3, column 1: `size` is nothing a layer has"), "{found}");
        let found = wrong("a.toml", "[[layer]]\ntype = 'linear'\ninput = '2x8'\nfilters = 4\ngroups = 2\n");
        assert!(found.starts_with("a.toml: line 5, column 10: a linear layer has no groups"), "{found}");
        let said_so = "type,input,filters,kernel,stride,padding,groups\nlinear,32x64,8,1x1,1,0,1";
        assert_eq!(shapes("a.csv", said_so), [("aten::addmm".to_owned(), "[[32,8]]".to_owned())]);
        assert!(wrong("a.toml", "[[layer]\n").starts_with("a.toml: line 1, column"));
    }
}
