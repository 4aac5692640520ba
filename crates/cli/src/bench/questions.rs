//! The requests that a measurement asks, ready before the clock starts.

use portcullis_policy::review::{AccessReview, ReviewAttributes};
use portcullis_policy::{Attributes, User};

use super::synthetic::Requests;
use crate::answer;
use crate::failure::Failure;
use crate::lines::Lines;

/// Requests to ask again and again.
#[derive(Debug)]
pub enum Questions {
    /// Of a made-up cluster.
    Synthetic(Requests),
    /// From a file.
    Reviews(Vec<AccessReview>),
}

/// Requests as authorizers see them.
#[derive(Debug)]
pub enum Ready<'q> {
    /// Of a made-up cluster.
    Synthetic(&'q Requests),
    /// From a file.
    Reviews(Vec<ReviewAttributes<'q>>),
}

impl Questions {
    /// Reads SubjectAccessReviews.
    ///
    /// # Errors
    /// A line that is no valid one.
    pub fn read(lines: &Lines) -> Result<Self, Failure> {
        let mut reviews = Vec::new();
        for (number, line) in lines.iter() {
            let review = answer::object(line).and_then(|document| answer::access(&document));
            reviews.push(review.map_err(|reason| lines.fault(number, reason))?);
        }
        Ok(Self::Reviews(reviews))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Synthetic(requests) => requests.len(),
            Self::Reviews(reviews) => reviews.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The requests with everything read, so that asking reads nothing but them.
    pub fn ready<'q>(&'q self, nobody: &'q User) -> Ready<'q> {
        match self {
            Self::Synthetic(requests) => Ready::Synthetic(requests),
            Self::Reviews(reviews) => {
                // Validated while reading.
                Ready::Reviews(reviews.iter().filter_map(|review| review.attributes(nobody).ok()).collect())
            }
        }
    }
}

impl Ready<'_> {
    /// One of the requests.
    pub fn attributes(&self, at: usize) -> Option<Attributes<'_>> {
        match self {
            Self::Synthetic(requests) => requests.attributes(at),
            Self::Reviews(reviews) => reviews.get(at).map(ReviewAttributes::attributes),
        }
    }
}
