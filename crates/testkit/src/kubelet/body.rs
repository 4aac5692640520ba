//! Bodies of answers: whole texts, a pattern of any length, and log lines that are sent while the client reads.

use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Interval;

use super::state::Open;

/// The period of [`pattern`].
const PERIOD: usize = 251;
/// A piece of the pattern: whole periods, about 64 KiB.
const PIECE: usize = PERIOD * 261;

/// The byte at an offset of what `?bytes=N` and `?mode=source&bytes=N` send.
pub fn pattern(offset: u64) -> u8 {
    (offset % PERIOD as u64) as u8
}

/// The next piece of the pattern, of which so much is left. Every piece but the last is of whole periods.
pub(super) fn piece(left: u64) -> Bytes {
    static WHOLE: LazyLock<Bytes> = LazyLock::new(|| (0..PIECE as u64).map(pattern).collect());
    WHOLE.slice(..usize::try_from(left).map_or(PIECE, |left| left.min(PIECE)))
}

/// The body of an answer.
pub(super) enum Answer {
    Whole(Option<Bytes>),
    /// So many bytes of the pattern; announced, or in chunks.
    Pattern {
        left: u64,
        announced: bool,
    },
    Lines(Lines),
}

/// One line at every tick.
pub(super) struct Lines {
    pub(super) ticks: Interval,
    pub(super) sent: usize,
    pub(super) end: Option<usize>,
    pub(super) _open: Open,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = match self.get_mut() {
            Self::Whole(body) => body.take(),
            Self::Pattern { left: 0, .. } => None,
            Self::Pattern { left, .. } => {
                let piece = piece(*left);
                *left -= piece.len() as u64;
                Some(piece)
            }
            Self::Lines(lines) if lines.end.is_some_and(|end| lines.sent >= end) => None,
            Self::Lines(lines) => {
                ready!(lines.ticks.poll_tick(cx));
                lines.sent += 1;
                Some(Bytes::from(line(lines.sent)))
            }
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Pattern { left: 0, announced: true })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Pattern { left, announced: true } => SizeHint::with_exact(*left),
            Self::Pattern { .. } | Self::Lines(_) => SizeHint::default(),
        }
    }
}

/// A line of a container's log, counted from 1.
pub(super) fn line(number: usize) -> String {
    format!("line {number}\n")
}
