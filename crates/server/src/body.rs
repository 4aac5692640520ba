//! What an answer carries: bytes that are there, or pieces that come as time goes by.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

/// The body of an answer.
pub enum Body {
    /// Everything at once; nothing once it has been sent.
    Whole(Bytes),
    /// What is known from the beginning, and too much to be put together at once.
    Parts(Parts),
    /// Piece by piece.
    Stream(Pieces),
}

/// A body that breaks off before its end. The connection breaks off with it, so that nobody takes it for whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body broke off")]
pub struct Broken;

/// The pieces of a body, each made when the client has taken those before it.
pub struct Parts(Box<dyn Iterator<Item = Bytes> + Send>);

impl Parts {
    /// These pieces, none of which is empty.
    pub(crate) fn new(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self(Box::new(pieces))
    }
}

impl Iterator for Parts {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.0.next()
    }
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(piece))))
    }
}

type Pieces = Pin<Box<dyn HttpBody<Data = Bytes, Error = Broken> + Send>>;

impl Body {
    /// The same body, which drops this when it has been sent or given up. What is whole counts as sent.
    pub(crate) fn with(self, guard: impl Send + Unpin + 'static) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Parts(pieces) => Self::Stream(Box::pin(Guarded { pieces, _guard: guard })),
            Self::Stream(pieces) => Self::Stream(Box::pin(Guarded { pieces, _guard: guard })),
        }
    }

    /// What somebody else answers, passed on as it comes, which drops this when it is over.
    pub(crate) fn passed_on(body: Incoming, guard: impl Send + Unpin + 'static) -> Self {
        let pieces = body.map_err(|error| {
            tracing::debug!(%error, "an answer that is passed on broke off");
            Broken
        });
        Self::Stream(Box::pin(Guarded { pieces, _guard: guard }))
    }

    /// The same body, which comes to its end when this does, if it comes piece by piece.
    pub(crate) fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        match self {
            Self::Stream(pieces) => Self::Stream(Box::pin(Until { pieces, end: Some(Box::pin(end)) })),
            other => other,
        }
    }

    /// A body whose pieces are made one after the other, each from the state that the one before left behind. Nothing
    /// is made ahead of a client that does not read.
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
    /// Its place is used again for every step.
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
    /// Nothing once it has come.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        // First of all: a piece that is there already must not go out any more.
        if self.end.as_mut().is_none_or(|end| end.as_mut().poll(cx).is_ready()) {
            self.end = None;
            return Poll::Ready(None);
        }
        self.pieces.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.end.is_none() || self.pieces.is_end_stream()
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
