//! Bodies of requests that are passed on to another server while they arrive.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// The client did not send its body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Interrupted {
    /// No part of it arrived in time.
    #[error("the request body does not arrive")]
    Late,
    /// It broke off.
    #[error("the request body broke off: {0}")]
    Broken(hyper::Error),
}

impl Interrupted {
    /// Returns why sending a request has failed, if its body is the cause.
    pub(crate) fn cause<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Self> {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        causes.find_map(|error| error.downcast_ref())
    }
}

/// A body of which a part must arrive within a limit, so that a client that sends nothing holds no connection to the
/// other server for long.
pub(crate) struct PassedBody {
    /// None for no body.
    body: Option<Incoming>,
    limit: Duration,
    /// Runs while the next part is awaited.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl PassedBody {
    pub(crate) fn new(body: Incoming, limit: Duration) -> Self {
        Self { body: Some(body), limit, timer: None, is_waiting: false }
    }

    /// No body.
    pub(crate) fn empty() -> Self {
        Self { body: None, limit: Duration::ZERO, timer: None, is_waiting: false }
    }

    /// Returns whether the next part has not arrived in time.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        if !std::mem::replace(&mut self.is_waiting, true) {
            timer.as_mut().reset(Instant::now() + self.limit);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl HttpBody for PassedBody {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.is_waiting = false;
                Poll::Ready(frame.map(|frame| frame.map_err(Interrupted::Broken)))
            }
            Poll::Pending if this.is_late(cx) => Poll::Ready(Some(Err(Interrupted::Late))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
