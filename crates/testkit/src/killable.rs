//! A process that a test kills, pauses and starts again, from any thread.
//!
//! If the test fails, the logs of the processes before are shown too, not only that of the one that runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::program::Running;

/// One process after the other. None runs at first.
#[derive(Debug)]
pub struct Killable {
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    /// Whether SIGSTOP holds it.
    is_stopped: bool,
    /// The logs of the processes before.
    earlier: String,
}

impl Killable {
    /// The name is shown in the output of a failed test.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), state: Mutex::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a process that has been started.
    ///
    /// # Panics
    /// One runs already.
    #[track_caller]
    pub fn run(&self, running: Running) {
        let before = self.state().running.replace(running);
        assert!(before.is_none(), "{} runs already", self.name);
    }

    /// The number of the process.
    ///
    /// # Panics
    /// None was started, or it was killed.
    #[track_caller]
    pub fn id(&self) -> u32 {
        self.state().running.as_ref().expect("it runs").id()
    }

    /// Kills it (SIGKILL), also while it is stopped.
    #[track_caller]
    pub fn kill(&self) {
        let mut state = self.state();
        let running = state.running.take().expect("it runs");
        state.is_stopped = false;
        state.earlier.push_str(&running.log());
        running.kill();
    }

    /// Stops it (SIGSTOP): its connections stay open and it does not answer, until [`Killable::cont`].
    #[track_caller]
    pub fn stop(&self) {
        let mut state = self.state();
        state.running.as_ref().expect("it runs").signal("STOP");
        state.is_stopped = true;
    }

    /// Lets it go on after [`Killable::stop`] (SIGCONT).
    #[track_caller]
    pub fn cont(&self) {
        let mut state = self.state();
        state.running.as_ref().expect("it runs").signal("CONT");
        state.is_stopped = false;
    }

    /// Not killed. It may be stopped.
    pub fn is_running(&self) -> bool {
        self.state().running.is_some()
    }

    /// Neither killed nor stopped.
    pub fn is_active(&self) -> bool {
        let state = self.state();
        state.running.is_some() && !state.is_stopped
    }

    /// Whether the process has ended by itself.
    ///
    /// # Panics
    /// None was started, or it was killed.
    #[track_caller]
    pub fn has_ended(&self) -> bool {
        self.state().running.as_mut().expect("it runs").has_ended()
    }

    /// The logs of the processes before, and of the one that runs.
    pub fn log(&self) -> String {
        let state = self.state();
        state.earlier.clone() + &state.running.as_ref().map(Running::log).unwrap_or_default()
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        let state = self.state();
        if std::thread::panicking() && !state.earlier.is_empty() {
            eprintln!("log of {} before it was killed:\n{}", self.name, state.earlier);
        }
    }
}
