//! One connection: what is known of it, and what comes after the answer that is being given.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::table::Place;
use super::tunnel::Tunnel;
use crate::http::activity::Activity;

/// The state of one connection.
pub struct Connection<P> {
    /// The handler's data about the peer.
    pub(crate) peer: P,
    /// The remote address.
    pub(crate) remote: Option<IpAddr>,
    pub(crate) is_http2: bool,
    pub(crate) activity: Arc<Activity>,
    /// The place in the table of connections, with the account that is charged.
    pub(crate) place: Arc<Place>,
    /// The tunnel that follows the current response.
    pub(super) tunnel: Mutex<Option<Tunnel>>,
}

impl<P> Connection<P> {
    /// Starts a tunnel after the current response, which has status 101.
    pub(crate) fn tunnel_to(&self, tunnel: Tunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    /// Keeps something until the tunnel that follows the current response has ended.
    pub(crate) fn keep_with_tunnel(&self, kept: impl Send + 'static) {
        if let Some(tunnel) = &mut *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) {
            let over = std::mem::replace(&mut tunnel.over, Box::new(|_| {}));
            tunnel.over = Box::new(move |carried| {
                over(carried);
                drop(kept);
            });
        }
    }

    pub(super) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A counted request, until this is dropped.
pub(crate) struct Busy<P>(Arc<Connection<P>>);

impl<P> Busy<P> {
    pub(crate) fn begin(connection: &Arc<Connection<P>>) -> Self {
        connection.activity.begin();
        Self(Arc::clone(connection))
    }
}

impl<P> Drop for Busy<P> {
    fn drop(&mut self) {
        self.0.activity.end();
    }
}
