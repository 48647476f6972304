//! The events of a large trace in pieces that are read side by side, and put together in order.
//!
//! Where a piece ends is guessed: events begin alike. The guess holds if reading the piece, which begins right behind an event,
//! ends exactly there; what then was read is what a single reading would have read. From the first piece on of which
//! that cannot be said the text is left to a single reading.

use std::ops::Range;

use memchr::memmem::{Finder, FinderBuilder};
use rayon::prelude::*;

use super::json::document::Document;
use super::json::lex;
use super::kineto::Numbers;
use super::open::Progress;
use super::parts::Parts;

/// Bytes of a piece, about.
const PIECE: usize = 1 << 20;
/// Bytes of text that are worth cutting up at a time.
pub const WINDOW: usize = 8 * PIECE;
/// Longest beginning that events are told by.
const LONGEST_BEGINNING: usize = 64;

/// Readers of pieces, each used for one after the other. What they read of one window is put together while they read the next.
#[derive(Default)]
pub struct Pieces {
    readers: Vec<Reader>,
    /// Readers of the window before, and of how many of them the pieces are still to be put together.
    before: Vec<Reader>,
    left: usize,
}

/// What reads a piece.
struct Reader {
    parts: Parts,
    /// What its numbers of names, tracks and the like are in the whole.
    numbers: Numbers,
}

/// How far a piece was read, if it can be taken as it is.
type Read = Option<usize>;

impl Pieces {
    /// Reads whole events at the start of `text`, for `whole`; `document` stands right behind an event there. No further piece is
    /// begun once `progress` is cancelled. [`Self::put_together`] must follow before anything else is read into `whole`.
    ///
    /// # Returns
    /// How many bytes they were, and whether pieces are worth trying further on.
    pub fn read(
        &mut self,
        text: &[u8],
        document: &mut Document,
        whole: &mut Parts,
        progress: &Progress,
    ) -> (usize, bool) {
        let pieces = cut(text);
        if pieces.len() < 2 {
            return (0, true);
        }
        while self.readers.len() < pieces.len() {
            self.readers.push(Reader { parts: whole.another(), numbers: Numbers::default() });
        }
        let ahead: &Document = document;
        let read_one = |(reader, piece): (&mut Reader, &Range<usize>)| {
            let goes_on = !progress.is_cancelled();
            goes_on.then(|| reader.read(&text[piece.clone()], ahead.ahead(piece.start))).flatten()
        };
        let mut readers = std::mem::take(&mut self.readers);
        let (read, ()) = rayon::join(
            || readers.par_iter_mut().zip(&pieces).map(read_one).collect::<Vec<Read>>(),
            || self.put_together(whole),
        );
        self.readers = std::mem::replace(&mut self.before, readers);
        let mut used = 0;
        for (piece, read) in pieces.iter().zip(read) {
            let Some(length) = read else { return (used, false) };
            self.left += 1;
            document.pass(length);
            used += length;
            if length < piece.len() {
                return (used, piece.end == text.len());
            }
        }
        (used, true)
    }

    /// Puts what was read and is not in `whole` yet behind what is.
    pub fn put_together(&mut self, whole: &mut Parts) {
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

/// `text`, which begins right behind an event, in pieces that seem to end right behind one; the last takes what is left.
fn cut(text: &[u8]) -> Vec<Range<usize>> {
    let Some(beginning) = beginning(text) else { return Vec::new() };
    let mut pieces = Vec::new();
    let mut from = 0;
    while text.len() - from > 2 * PIECE {
        let Some(end) = end_near(text, from + PIECE, &beginning) else { break };
        pieces.push(from..end);
        from = end;
    }
    pieces.push(from..text.len());
    pieces
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
        let pieces = cut(text.as_bytes());
        assert!(pieces.len() >= 5, "{pieces:?}");
        assert_eq!(pieces.first().map(|piece| piece.start), Some(0));
        assert_eq!(pieces.last().map(|piece| piece.end), Some(text.len()));
        assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(
            pieces
                .iter()
                .all(|piece| text[piece.clone()].starts_with(",\n  {") && text[piece.clone()].ends_with("\n  }"))
        );
    }
}
