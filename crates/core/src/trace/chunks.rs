//! The events of a large trace in chunks that are read side by side, and put together in order.
//!
//! Where a chunk ends is guessed: events begin alike. The guess holds if reading the chunk, which begins right behind an event,
//! ends exactly there; what then was read is what a single reading would have read. From the first chunk on of which
//! that cannot be said the text is left to a single reading.

use std::ops::Range;

use memchr::memmem::{Finder, FinderBuilder};
use rayon::prelude::*;

use super::Progress;
use super::json::document::Document;
use super::json::lex;
use super::kineto::Renumbering;
use super::parts::Parts;

/// Bytes of a chunk, about.
const CHUNK: usize = 1 << 20;
/// Bytes of text that are worth cutting up at a time.
pub(super) const WINDOW: usize = 8 * CHUNK;
/// Longest beginning that events are told by.
const LONGEST_BEGINNING: usize = 64;

/// Readers of chunks, each used for one after the other. What they read of one window is put together while they read the next.
#[derive(Default)]
pub(super) struct Chunks {
    readers: Vec<Reader>,
    /// Readers of the window before, and of how many of them the chunks are still to be put together.
    before: Vec<Reader>,
    left: usize,
}

/// What reads a chunk.
struct Reader {
    parts: Parts,
    /// What its numbers of names, tracks and the like are in the whole.
    numbers: Renumbering,
}

/// How far a chunk was read, if it can be taken as it is.
type Read = Option<usize>;

impl Chunks {
    /// Reads whole events at the start of `text`, for `whole`; `document` stands right behind an event there. No further chunk is
    /// begun once `progress` is cancelled. [`Self::put_together`] must follow before anything else is read into `whole`.
    ///
    /// # Returns
    /// How many bytes they were, and whether chunks are worth trying further on.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        document: &mut Document,
        whole: &mut Parts,
        progress: &Progress,
    ) -> (usize, bool) {
        let chunks = cut(text);
        if chunks.len() < 2 {
            return (0, true);
        }
        while self.readers.len() < chunks.len() {
            self.readers.push(Reader { parts: whole.another(), numbers: Renumbering::default() });
        }
        let ahead: &Document = document;
        let read_one = |(reader, chunk): (&mut Reader, &Range<usize>)| {
            let goes_on = !progress.is_cancelled();
            goes_on.then(|| reader.read(&text[chunk.clone()], ahead.ahead(chunk.start))).flatten()
        };
        let mut readers = std::mem::take(&mut self.readers);
        let (read, ()) = rayon::join(
            || readers.par_iter_mut().zip(&chunks).map(read_one).collect::<Vec<Read>>(),
            || self.put_together(whole),
        );
        self.readers = std::mem::replace(&mut self.before, readers);
        let mut used = 0;
        for (chunk, read) in chunks.iter().zip(read) {
            let Some(length) = read else { return (used, false) };
            self.left += 1;
            document.pass(length);
            used += length;
            if length < chunk.len() {
                return (used, chunk.end == text.len());
            }
        }
        (used, true)
    }

    /// Puts what was read and is not in `whole` yet behind what is.
    pub(super) fn put_together(&mut self, whole: &mut Parts) {
        for reader in self.before.iter_mut().take(std::mem::take(&mut self.left)) {
            whole.append(&mut reader.parts, &mut reader.numbers);
        }
    }
}

impl Reader {
    fn read(&mut self, text: &[u8], mut document: Document) -> Read {
        let used = document.feed(text, &mut self.parts).ok()?;
        (document.is_between_elements() && self.parts.stands_alone()).then_some(used)
    }
}

/// `text`, which begins right behind an event, in chunks that seem to end right behind one; the last takes what is left.
fn cut(text: &[u8]) -> Vec<Range<usize>> {
    let Some(beginning) = beginning(text) else { return Vec::new() };
    let mut chunks = Vec::new();
    let mut from = 0;
    while text.len() - from > 2 * CHUNK {
        let Some(end) = end_near(text, from + CHUNK, &beginning) else { break };
        chunks.push(from..end);
        from = end;
    }
    chunks.push(from..text.len());
    chunks
}

/// From the bracket of the first event in `text` to the end of its first key.
fn beginning(text: &[u8]) -> Option<Finder<'_>> {
    let comma = lex::expect(text, lex::skip_space(text, 0), b',').ok()?;
    let bracket = lex::skip_space(text, comma);
    let key = lex::skip_space(text, lex::expect(text, bracket, b'{').ok()?);
    let (end, _) = lex::string_end(text, key).ok()?;
    (end - bracket <= LONGEST_BEGINNING).then(|| FinderBuilder::new().build_forward(&text[bracket..end]))
}

/// The end of an event behind `from`, told by the comma and the beginning of another behind it.
fn end_near(text: &[u8], from: usize, beginning: &Finder<'_>) -> Option<usize> {
    let before = |at: usize| text[..at].iter().rposition(|byte| !byte.is_ascii_whitespace());
    beginning.find_iter(&text[from..]).find_map(|found| {
        let comma = before(from + found).filter(|&at| text[at] == b',')?;
        before(comma).filter(|&at| text[at] == b'}').map(|at| at + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_behind_events_and_lose_nothing() {
        let event = |i: usize| {
            format!(
                ",\n  {{\n    \"ph\": \"X\", \"name\": \"{}\", \"args\": {{\"a\": [{{}}, {{}}]}}\n  }}",
                "x".repeat(i % 999)
            )
        };
        let text: String = (0..20_000).map(event).collect();
        let chunks = cut(text.as_bytes());
        assert!(chunks.len() >= 5, "{chunks:?}");
        assert_eq!(chunks.first().map(|chunk| chunk.start), Some(0));
        assert_eq!(chunks.last().map(|chunk| chunk.end), Some(text.len()));
        assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(
            chunks
                .iter()
                .all(|chunk| text[chunk.clone()].starts_with(",\n  {") && text[chunk.clone()].ends_with("\n  }"))
        );
    }
}
