//! `/v1/rerank`, as vLLM, Jina and Cohere have it.

use super::body::{Asked, Check};
use super::embeddings::MAX_TEXTS;
use super::schema::Endpoint;
use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request for `/v1/rerank`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RerankRequest {
    /// The model.
    pub model: String,
    /// What is looked for.
    pub query: String,
    /// The texts to put in order.
    pub documents: Vec<String>,
    /// Answer only so many of the best.
    pub top_n: Option<u32>,
    /// Whether the answer repeats the texts; it does where nothing is said.
    pub return_documents: Option<bool>,
}

impl Asked for RerankRequest {
    const ENDPOINT: Endpoint = Endpoint::Rerank;
}

impl Check for RerankRequest {
    fn check(&self) -> Result<(), Fault> {
        if self.documents.len() > MAX_TEXTS {
            let message = format!("a request can have at most {MAX_TEXTS} documents");
            return Err(Fault::param("documents", message));
        }
        Ok(())
    }
}

/// An answer of `/v1/rerank`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RerankAnswer {
    /// The request's id.
    pub id: String,
    /// The model.
    pub model: String,
    /// Tokens.
    pub usage: RerankUsage,
    /// The best first.
    pub results: Vec<RankedDocument>,
}

/// How many tokens were read.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct RerankUsage {
    /// In query and documents.
    pub total_tokens: u64,
}

/// A text and how well it answers the query.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RankedDocument {
    /// Which text.
    pub index: usize,
    /// It.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentText>,
    /// From -1 to 1.
    pub relevance_score: f32,
}

/// A text.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DocumentText {
    /// It.
    pub text: String,
}

impl RerankRequest {
    /// The answer, by the vectors of the query and of each text, each of length one.
    #[must_use]
    pub fn ranked(&self, vectors: &[Vec<f32>]) -> Vec<RankedDocument> {
        let Some((query, documents)) = vectors.split_first() else { return Vec::new() };
        let cosine = |vector: &Vec<f32>| query.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
        let shows = self.return_documents != Some(false);
        let ranked = documents.iter().zip(&self.documents).enumerate().map(|(index, (vector, text))| {
            let document = shows.then(|| DocumentText { text: text.clone() });
            RankedDocument { index, document, relevance_score: cosine(vector) }
        });
        let mut ranked: Vec<RankedDocument> = ranked.collect();
        ranked.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score).then(a.index.cmp(&b.index)));
        ranked.truncate(self.top_n.map_or(usize::MAX, |most| most as usize));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_text_is_first_and_ties_keep_their_order() {
        let texts = ["far", "near", "near"].map(str::to_owned).to_vec();
        let (model, query) = ("m".to_owned(), "q".to_owned());
        let mut asked =
            RerankRequest { model, query, documents: texts, top_n: Some(2), return_documents: None };
        let vectors = [vec![1.0, 0.0], vec![0.0, 1.0], vec![0.8, 0.6], vec![0.8, 0.6]];
        let order =
            |asked: &RerankRequest| asked.ranked(&vectors).iter().map(|one| one.index).collect::<Vec<_>>();
        assert_eq!(order(&asked), [1, 2]);
        assert_eq!(asked.ranked(&vectors)[0].document.as_ref().unwrap().text, "near");
        asked.return_documents = Some(false);
        assert!(asked.ranked(&vectors)[0].document.is_none());
        asked.top_n = None;
        assert_eq!(order(&asked), [1, 2, 0]);
    }
}
