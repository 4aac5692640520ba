//! The requests of a benchmark, prepared before it starts.

use portcullis_policy::review::{AccessReview, ReviewAttributes};
use portcullis_policy::{Attributes, User};

use super::synthetic::Requests;
use crate::answer;
use crate::failure::Failure;
use crate::lines::Lines;

/// The requests to repeat.
#[derive(Debug)]
pub enum Questions {
    /// Of a synthetic cluster.
    Synthetic(Requests),
    /// From a file.
    Reviews(Vec<AccessReview>),
}

/// Requests in the form of authorizers.
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
    /// A line is not a valid review.
    pub fn read(lines: &Lines) -> Result<Self, Failure> {
        let mut reviews = Vec::new();
        for (number, line) in lines.iter() {
            let review = answer::object(line).and_then(|document| answer::access(&document));
            reviews.push(review.map_err(|reason| lines.fault(number, reason))?);
        }
        Ok(Self::Reviews(reviews))
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        match self {
            Self::Synthetic(requests) => requests.len(),
            Self::Reviews(reviews) => reviews.len(),
        }
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Prepares the requests, so that nothing else is parsed during the measurement.
    pub fn ready<'q>(&'q self, nobody: &'q User) -> Ready<'q> {
        match self {
            Self::Synthetic(requests) => Ready::Synthetic(requests),
            Self::Reviews(reviews) => {
                // Already validated.
                Ready::Reviews(reviews.iter().filter_map(|review| review.attributes(nobody).ok()).collect())
            }
        }
    }
}

impl Ready<'_> {
    /// Returns the attributes of one request.
    pub fn attributes(&self, at: usize) -> Option<Attributes<'_>> {
        match self {
            Self::Synthetic(requests) => requests.attributes(at),
            Self::Reviews(reviews) => reviews.get(at).map(ReviewAttributes::attributes),
        }
    }
}
