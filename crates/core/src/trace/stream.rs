//! Packed bytes → windows of text, unpacked on one thread while another reads them; never the whole file at once.

use std::borrow::Cow;
use std::io::{BufRead, ErrorKind, Read};
use std::sync::mpsc::sync_channel;

use flate2::bufread::MultiGzDecoder;

use super::{OpenOptions, Progress};

/// Room before a buffer for the unread end of the one before it.
const HEADROOM: usize = 64 << 10;
/// Bytes per buffer; smaller ones make the two threads wait for one another.
pub(super) const BUFFER: usize = 1 << 20;
/// Bytes unpacked at a time: their checksum is taken while they are in the cache.
const AT_ONCE: usize = 256 << 10;
/// Buffers under way between the threads.
const BUFFERS_AHEAD: usize = 4;
/// Packed content below this size is not worth a thread.
const SMALL: usize = 256 << 10;
/// What some editors put before UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Below this much content the ratio says nothing.
const RATIO_FROM: u64 = 256 << 20;

/// What reads windows of text.
pub(super) trait Consumer {
    /// Why it stops before the end.
    type Stop;

    /// How many bytes it wants at a time.
    fn wanted(&self) -> usize {
        BUFFER
    }

    /// Reads on in `window`, which starts where the last call stopped.
    ///
    /// # Returns
    /// How many bytes were used.
    ///
    /// # Errors
    /// When reading shall stop.
    fn window(&mut self, window: &[u8]) -> Result<usize, Self::Stop>;
}

/// How a stream ended, and what was left unread of it.
#[derive(Debug)]
pub(super) struct Rest<'a> {
    /// The end that the consumer has not used.
    pub text: Cow<'a, [u8]>,
    /// Why unpacking ended early; `None` when it did not.
    pub broken: Option<std::io::Error>,
}

/// The content of a file or of an archive's member, and how it is packed.
pub(super) enum Packed<'a> {
    /// A file that is not packed.
    Not(&'a [u8]),
    /// A file in gzip.
    Gzip(&'a [u8]),
    /// A member of an archive: what was read of it to look at, and the rest.
    Member(Vec<u8>, &'a mut dyn Read),
    /// A large file, or a pipe: what was read of it to look at, the rest, and about how long it is (0 = unknown).
    Flow(Vec<u8>, &'a mut (dyn Read + Send), usize),
}

impl<'a> Packed<'a> {
    /// The first `count` bytes of the content, or as many as can be unpacked: reading on says what is wrong then.
    pub(super) fn head(&mut self, count: usize) -> Vec<u8> {
        let (mut head, most) = (Vec::new(), count as u64);
        let _ = match self {
            Self::Not(bytes) => (*bytes).take(most).read_to_end(&mut head),
            Self::Gzip(bytes) => MultiGzDecoder::new(*bytes).take(most).read_to_end(&mut head),
            Self::Flow(known, rest, _) => rest.take(most).read_to_end(known).inspect(|_| head.clone_from(known)),
            Self::Member(known, rest) => rest.take(most).read_to_end(known).inspect(|_| head.clone_from(known)),
        };
        head
    }

    /// About how many bytes the content has; 0 where that is unknown.
    pub(super) fn size_hint(&self) -> usize {
        match self {
            Self::Not(bytes) => bytes.len(),
            Self::Gzip(bytes) => unpacked_size(bytes),
            Self::Flow(_, _, size) => *size,
            Self::Member(..) => 0,
        }
    }

    /// The content at once, what is packed or flows up to `most` bytes of it.
    ///
    /// # Errors
    /// Why unpacking ended early, and behind how many bytes.
    pub(super) fn whole(self, options: &OpenOptions, most: u64) -> Result<Cow<'a, [u8]>, (std::io::Error, u64)> {
        let mut all = Vec::new();
        let read = match self {
            Self::Not(bytes) => {
                options.progress.add_bytes(bytes.len() as u64);
                return Ok(Cow::Borrowed(bytes));
            }
            Self::Gzip(bytes) => unpack(bytes, options).take(most).read_to_end(&mut all),
            Self::Flow(head, rest, size) => {
                all = head;
                let reserved = all.try_reserve((size as u64).min(most).saturating_sub(all.len() as u64) as usize);
                let rest = rest.take(most.saturating_sub(all.len() as u64));
                reserved.map_err(|_| ErrorKind::OutOfMemory.into()).and_then(|()| { rest }.read_to_end(&mut all))
            }
            Self::Member(head, rest) => {
                all = head;
                rest.take(most.saturating_sub(all.len() as u64)).read_to_end(&mut all)
            }
        };
        match read {
            Ok(_) => Ok(Cow::Owned(all)),
            Err(error) => Err((error, all.len() as u64)),
        }
    }

    /// Hands the content to `consumer`, window by window.
    ///
    /// # Errors
    /// As the consumer.
    pub(super) fn windows<C: Consumer>(self, options: &OpenOptions, consumer: &mut C) -> Result<Rest<'a>, C::Stop> {
        match self {
            Self::Not(bytes) => {
                let used = read_slice(bytes, &options.progress, consumer)?;
                Ok(Rest { text: Cow::Borrowed(&bytes[used..]), broken: None })
            }
            Self::Gzip(bytes) => read_gzip(bytes, options, consumer),
            Self::Flow(head, rest, size) if size > SMALL => read_threaded(head.as_slice().chain(rest), consumer),
            Self::Flow(head, rest, _) => read_inline(head.as_slice().chain(rest), consumer),
            Self::Member(head, rest) => read_inline(head.as_slice().chain(rest), consumer),
        }
    }
}

/// What should have stood where unpacking failed.
pub(super) fn expected(error: &std::io::Error) -> String {
    format!("a complete gzip stream ({error})")
}

/// What a gzip file says at its end of the size of its content; not trusted beyond what JSON packs to.
fn unpacked_size(bytes: &[u8]) -> usize {
    const LIKELY_RATIO: usize = 32;
    let stated = bytes.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    stated.min(bytes.len().saturating_mul(LIKELY_RATIO))
}

/// Hands all of `bytes` to `consumer` without copying.
///
/// # Returns
/// Where the unused end starts.
///
/// # Errors
/// As the consumer.
fn read_slice<C: Consumer>(bytes: &[u8], progress: &Progress, consumer: &mut C) -> Result<usize, C::Stop> {
    let (mut from, mut to) = (0, 0);
    while to < bytes.len() {
        // A value longer than a window is looked at again with twice as much of it, so that the work stays linear.
        let wanted = (4 * BUFFER).max(consumer.wanted()).max(2 * (to - from));
        let end = bytes.len().min(from + wanted);
        progress.add_bytes((end - to) as u64);
        to = end;
        from += consumer.window(&bytes[from..to])?;
    }
    Ok(from)
}

/// Unpacks gzip `bytes` and hands the text to `consumer`.
///
/// # Errors
/// As the consumer.
fn read_gzip<'a, C: Consumer>(bytes: &[u8], options: &OpenOptions, consumer: &mut C) -> Result<Rest<'a>, C::Stop> {
    let unpacked = unpack(bytes, options);
    if bytes.len() < SMALL { read_inline(unpacked, consumer) } else { read_threaded(unpacked, consumer) }
}

/// The unpacked text of gzip `bytes`, within the limits of `options`.
pub(super) fn unpack<'a>(bytes: &'a [u8], options: &'a OpenOptions) -> impl Read + Send + 'a {
    let packed = Counted { rest: bytes, progress: &options.progress };
    let by_ratio = RATIO_FROM.max(options.max_unpacked_ratio.saturating_mul(bytes.len() as u64));
    Limited { inner: MultiGzDecoder::new(packed), left: options.max_unpacked_bytes.min(by_ratio) }
}

/// What `source` gives, within the limits of `options`; fails when it has been told to stop.
pub(super) fn limited(source: impl Read + Send, options: &OpenOptions) -> impl Read + Send {
    let inner = Stoppable { source, progress: &options.progress, counts: false };
    Limited { inner, left: options.max_unpacked_bytes }
}

/// What a file gives, which counts as read; fails when it has been told to stop.
pub(super) fn counted(source: impl Read + Send, options: &OpenOptions) -> impl Read + Send {
    Stoppable { source, progress: &options.progress, counts: true }
}

/// Fails once loading is to stop.
struct Stoppable<'a, R> {
    source: R,
    progress: &'a Progress,
    /// Whether the progress is told how much was read.
    counts: bool,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.progress.is_cancelled() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let count = self.source.read(buffer)?;
        if self.counts {
            self.progress.add_bytes(count as u64);
        }
        Ok(count)
    }
}

/// Hands all of `source` to `consumer`, on this thread.
///
/// # Errors
/// As the consumer.
fn read_inline<'a, C: Consumer>(mut source: impl Read, consumer: &mut C) -> Result<Rest<'a>, C::Stop> {
    let mut join = Join::default();
    let mut buffer = vec![0; HEADROOM + consumer.wanted()];
    loop {
        let (end, broken) = fill(&mut source, &mut buffer);
        join.take(&mut buffer, end, consumer)?;
        if end < buffer.len() {
            return Ok(Rest { text: Cow::Owned(join.carry), broken });
        }
    }
}

fn read_threaded<'a, C: Consumer>(mut source: impl Read + Send, consumer: &mut C) -> Result<Rest<'a>, C::Stop> {
    let (full_sender, full) = sync_channel::<(Vec<u8>, usize, Option<std::io::Error>)>(BUFFERS_AHEAD);
    let (empty_sender, empty) = sync_channel::<Vec<u8>>(BUFFERS_AHEAD);
    let wanted = consumer.wanted();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                let mut buffer = empty.try_recv().unwrap_or_else(|_| vec![0; HEADROOM + wanted]);
                let (end, broken) = fill(&mut source, &mut buffer);
                let is_last = end < buffer.len();
                // The other side hangs up when it stops early.
                if full_sender.send((buffer, end, broken)).is_err() || is_last {
                    return;
                }
            }
        });
        let (mut join, mut how) = (Join::default(), None);
        for (mut buffer, end, broken) in full {
            join.take(&mut buffer, end, consumer)?;
            how = broken;
            // A full queue of empty buffers only means that this one is not needed.
            let _ = empty_sender.try_send(buffer);
        }
        Ok(Rest { text: Cow::Owned(join.carry), broken: how })
    })
}

/// Fills `buffer` behind its headroom.
///
/// # Returns
/// Where the content ends: before the end of `buffer` at the end of `source`, which may be an error.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<std::io::Error>) {
    let mut end = HEADROOM;
    while end < buffer.len() {
        let until = buffer.len().min(end + AT_ONCE);
        match source.read(&mut buffer[end..until]) {
            Ok(0) => return (end, None),
            Ok(count) => end += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (end, Some(error)),
        }
    }
    (end, None)
}

/// Puts the unread end of each buffer before the next.
#[derive(Default)]
struct Join {
    carry: Vec<u8>,
    /// A long carry is not looked at again before it has this length, so that the work stays linear.
    next_look: usize,
}

impl Join {
    fn take<C: Consumer>(&mut self, buffer: &mut [u8], end: usize, consumer: &mut C) -> Result<(), C::Stop> {
        if self.carry.len() <= HEADROOM {
            let start = HEADROOM - self.carry.len();
            buffer[start..HEADROOM].copy_from_slice(&self.carry);
            let used = consumer.window(&buffer[start..end])?;
            self.carry.clear();
            self.carry.extend_from_slice(&buffer[start + used..end]);
            self.next_look = 2 * self.carry.len();
            return Ok(());
        }
        self.carry.extend_from_slice(&buffer[HEADROOM..end]);
        if self.carry.len() >= self.next_look {
            let used = consumer.window(&self.carry)?;
            self.carry.drain(..used);
            self.next_look = 2 * self.carry.len();
        }
        Ok(())
    }
}

/// Packed bytes that count as read when the unpacker takes them.
struct Counted<'a> {
    rest: &'a [u8],
    progress: &'a Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.rest.read(buffer)?;
        self.progress.add_bytes(count as u64);
        Ok(count)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(self.rest)
    }

    fn consume(&mut self, count: usize) {
        self.progress.add_bytes(count as u64);
        self.rest = &self.rest[count..];
    }
}

/// Fails with [`ErrorKind::FileTooLarge`] beyond a number of bytes, and from then on.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.unwrap_or(0);
        left.map(|_| count).ok_or_else(|| ErrorKind::FileTooLarge.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Takes lines; keeps what has no end yet.
    #[derive(Default)]
    struct Lines(Vec<usize>);

    impl Consumer for Lines {
        type Stop = ();

        fn window(&mut self, window: &[u8]) -> Result<usize, ()> {
            let used = window.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            self.0.extend(window[..used].split_inclusive(|b| *b == b'\n').map(<[u8]>::len));
            Ok(used)
        }
    }

    fn text() -> (Vec<u8>, Vec<usize>) {
        let lengths: Vec<usize> = (0..400).map(|i| if i % 40 == 7 { 300_000 } else { 1_000 + i }).collect();
        let text = lengths.iter().flat_map(|&length| [vec![b'x'; length - 1], vec![b'\n']].concat()).collect();
        (text, lengths)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn lines_are_whole_however_they_were_packed() {
        let (text, lengths) = text();
        let options = OpenOptions::default();
        let packed = gzip(&text);
        let (mut threaded, mut inline, mut plain) = (Lines::default(), Lines::default(), Lines::default());
        let rest = read_threaded(unpack(&packed, &options), &mut threaded).unwrap();
        assert_eq!((rest.text.len(), rest.broken.is_none(), &threaded.0), (0, true, &lengths));
        read_inline(&text[..], &mut inline).unwrap();
        assert_eq!(inline.0, lengths);
        assert_eq!((read_slice(&text, &options.progress, &mut plain), &plain.0), (Ok(text.len()), &lengths));
        assert_eq!(options.progress.bytes_read(), (packed.len() + text.len()) as u64);
    }

    #[test]
    fn a_broken_or_oversized_archive_gives_what_came_before() {
        let (text, _) = text();
        let packed = gzip(&text);
        let mut lines = Lines::default();
        let rest = read_gzip(&packed[..packed.len() / 2], &OpenOptions::default(), &mut lines).unwrap();
        assert_eq!(rest.broken.map(|e| e.kind()), Some(ErrorKind::UnexpectedEof));
        assert!(lines.0.len() > 100);
        let options = OpenOptions { max_unpacked_bytes: 2_000_000, ..OpenOptions::default() };
        let rest = read_gzip(&packed, &options, &mut Lines::default()).unwrap();
        assert_eq!(rest.broken.map(|e| e.kind()), Some(ErrorKind::FileTooLarge));
    }
}
