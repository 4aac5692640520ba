//! Response bodies: complete bytes, or a stream of chunks.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::activity::{OpenStream, Sending};

/// A complete body is given to the connection in pieces of this size, so that a client that does not read holds little in
/// its buffers. In bytes.
const PIECE: usize = 32 * 1024;

/// The body of a response.
pub enum Body {
    /// The complete body; none once it has been sent.
    Whole(Bytes),
    /// Chunks of known content that is too large to build at once.
    Parts(Parts),
    /// A stream of chunks.
    Stream(Pieces),
}

/// A body that breaks off before its end. The connection is closed as well, so that the client notices the truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body broke off")]
pub struct Broken;

/// The chunks of a body, each created when the client has received those before it.
pub struct Parts {
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    is_costly: bool,
}

impl Parts {
    /// Creates a body of chunks, none of which is empty.
    pub(crate) fn new(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self { pieces: Box::new(pieces), is_costly: false }
    }

    /// Creates a body of chunks that take long to create, none of which is empty.
    pub(crate) fn costly(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self { is_costly: true, ..Self::new(pieces) }
    }

    /// Returns whether the chunks take long to create.
    pub(crate) fn is_costly(&self) -> bool {
        self.is_costly
    }
}

impl Iterator for Parts {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.pieces.next()
    }
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Poll::Ready(self.pieces.next().map(|piece| Ok(Frame::data(piece))))
    }
}

type Pieces = Pin<Box<dyn HttpBody<Data = Bytes, Error = Broken> + Send>>;

impl Body {
    /// Attaches a guard that is dropped when the body was sent or abandoned. A complete body counts as sent. What is
    /// held of the body is charged.
    pub(crate) fn sent(self, guard: impl Send + Unpin + 'static, mut sending: Sending) -> Sent {
        let body = match self {
            Self::Whole(bytes) => Self::Whole(sending.charged(bytes)),
            Self::Parts(pieces) => Self::Stream(Box::pin(Guarded { pieces, _guard: guard })),
            Self::Stream(pieces) => Self::Stream(Box::pin(Guarded { pieces, _guard: guard })),
        };
        sending.answered();
        Sent { body, sending, stream: None }
    }

    /// Forwards another server's body, and drops the guard at the end.
    pub(crate) fn passed_on(body: Incoming, guard: impl Send + Unpin + 'static) -> Self {
        let pieces = body.map_err(|error| {
            tracing::debug!(%error, "a forwarded response broke off");
            Broken
        });
        Self::Stream(Box::pin(Guarded { pieces, _guard: guard }))
    }

    /// Ends a streamed body when the future completes.
    pub(crate) fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        self.ended_by(end, None)
    }

    /// Breaks a streamed body off when the future completes.
    pub(crate) fn cut_by(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        self.ended_by(end, Some(Broken))
    }

    fn ended_by(self, end: impl Future<Output = ()> + Send + 'static, broken: Option<Broken>) -> Self {
        match self {
            Self::Stream(pieces) => {
                Self::Stream(Box::pin(Until { pieces, end: Some(Box::pin(end)), broken }))
            }
            other => other,
        }
    }

    /// Creates a streamed body. Each chunk is computed from the state that the previous one left. Nothing is computed
    /// ahead of a client that does not read.
    pub(crate) fn unfold<S, F, Step>(state: S, mut next: F) -> Self
    where
        F: FnMut(S) -> Step + Send + Unpin + 'static,
        Step: Future<Output = Option<(Bytes, S)>> + Send + 'static,
    {
        let step = Some(Box::pin(next(state)));
        Self::Stream(Box::pin(Unfold { next, step }))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            Self::Parts(parts) => Pin::new(parts).poll_frame(cx),
            Self::Stream(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Parts(parts) => parts.is_end_stream(),
            Self::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Parts(parts) => HttpBody::size_hint(parts),
            Self::Stream(stream) => stream.size_hint(),
        }
    }
}

struct Unfold<F, Step> {
    next: F,
    /// The allocation is reused for every step.
    step: Option<Pin<Box<Step>>>,
}

impl<S, F, Step> HttpBody for Unfold<F, Step>
where
    F: FnMut(S) -> Step + Unpin,
    Step: Future<Output = Option<(Bytes, S)>>,
{
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        let Some(step) = &mut this.step else { return Poll::Ready(None) };
        match ready!(step.as_mut().poll(cx)) {
            Some((bytes, state)) => {
                step.set((this.next)(state));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            None => {
                this.step = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.step.is_none()
    }
}

struct Until {
    pieces: Pieces,
    /// None once it has completed.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The error by which the body ends, if any.
    broken: Option<Broken>,
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        // Checked first: a chunk that is ready must not be sent any more.
        if self.end.as_mut().is_none_or(|end| end.as_mut().poll(cx).is_ready()) {
            self.end = None;
            return Poll::Ready(self.broken.take().map(Err));
        }
        self.pieces.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        (self.end.is_none() && self.broken.is_none()) || self.pieces.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.pieces.size_hint()
    }
}

/// A body that is being sent.
pub struct Sent {
    /// What is not sent yet.
    body: Body,
    sending: Sending,
    /// The stream on which it is sent.
    stream: Option<OpenStream>,
}

impl Sent {
    /// Counts the stream as open until this was sent or abandoned.
    pub(crate) fn on(mut self, stream: OpenStream) -> Self {
        self.stream = Some(stream);
        self
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        this.sending.asked();
        let frame = match &mut this.body {
            Body::Whole(rest) if rest.is_empty() => None,
            Body::Whole(rest) => Some(Ok(Frame::data(rest.split_to(rest.len().min(PIECE))))),
            stream => {
                let frame = ready!(Pin::new(stream).poll_frame(cx));
                frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| this.sending.charged(bytes))))
            }
        };
        if frame.is_some() {
            this.sending.gave();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Guarded<B, G> {
    pieces: B,
    _guard: G,
}

impl<B, G> HttpBody for Guarded<B, G>
where
    B: HttpBody<Data = Bytes, Error = Broken> + Unpin,
    G: Unpin,
{
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Pin::new(&mut self.pieces).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.pieces.size_hint()
    }
}
