//! Calls of an instance.

use super::body::{InstanceId, JsonBody};
use super::lifecycle::Answer;
use super::types::{CallAnswer, CallData, CallRequest, Envelope};
use crate::fault::{FailedEnvelope, Fault};
use crate::model_server::ModelServer;
use crate::model_server::engines::{self, EmbedInput, EngineWork, TextStream, WorkKind, seconds};
use crate::model_server::instance::ModelInstance;
use axum::Json;
use axum::extract::State;
use gswarm_infer::{FinishReason, FinishedGeneration, GenerateRequest, GenerationEvent, TokenChance};

/// Tokens of an answer where nothing is said.
const USUAL_LENGTH: u32 = 64;

/// What a call asks of a model of this kind.
pub(super) fn work(kind: &WorkKind, data: &CallData) -> Result<EngineWork, Fault> {
    let prompt = || {
        let message = format!("a model of type {} needs `data.prompt`", kind.name());
        data.prompt.clone().ok_or_else(|| Fault::param("data.prompt", message))
    };
    Ok(match kind {
        WorkKind::Language => {
            let mut request = GenerateRequest::text(prompt()?);
            request.max_tokens = data.most_tokens().unwrap_or(USUAL_LENGTH) as usize;
            request.temperature = data.temperature.unwrap_or(0.0);
            request.top_p = data.top_p.unwrap_or(1.0);
            request.seed = u64::from(data.seed.unwrap_or(0));
            request.stop = data.stop.as_ref().map(|stop| stop.list()).unwrap_or_default();
            EngineWork::Text(Box::new(request))
        }
        WorkKind::Embedding => EngineWork::Embed(vec![prompt()?]),
        WorkKind::Other(_) => EngineWork::Other { steps: data.steps },
    })
}

/// The whole of a text.
pub(super) async fn finished(generation: TextStream) -> Result<FinishedGeneration, Fault> {
    Ok(finished_with_chances(generation).await?.0)
}

/// The same, with how likely its tokens were, where that was asked for.
pub(super) async fn finished_with_chances(
    mut generation: TextStream,
) -> Result<(FinishedGeneration, Vec<TokenChance>), Fault> {
    let mut chances = Vec::new();
    loop {
        match generation.next().await {
            GenerationEvent::Token { chance, .. } => chances.extend(chance),
            GenerationEvent::Done(finished) => return Ok((finished, chances)),
            GenerationEvent::Failed(error) => return Err(engines::fault(error)),
        }
    }
}

/// `stop` or `length`.
pub(super) fn reason(reason: &FinishReason) -> String {
    let text = match reason {
        FinishReason::Length => "length",
        FinishReason::EndOfText | FinishReason::Stop(_) => "stop",
    };
    text.to_string()
}

/// Call an instance
///
/// Calls of an instance are batched; as many as its queue holds may wait, and more are answered with 429.
#[utoipa::path(post, path = "/standalone/call/{instance_id}", tag = "calls",
    params(("instance_id" = String, Path, description = "six letters and digits")),
    request_body = CallRequest, responses(
    (status = 200, body = Envelope<CallAnswer>),
    (status = 400, body = FailedEnvelope), (status = 404, body = FailedEnvelope),
    (status = 409, body = FailedEnvelope), (status = 413, body = FailedEnvelope),
    (status = 415, body = FailedEnvelope), (status = 429, body = FailedEnvelope),
    (status = 503, body = FailedEnvelope)))]
pub(super) async fn call(
    State(server): State<ModelServer>,
    InstanceId(id): InstanceId,
    JsonBody(request): JsonBody<CallRequest>,
) -> Answer<CallAnswer> {
    let instance = server.registry().instance(&id)?;
    same_instance(request.instance_id.as_deref(), &id)?;
    Ok(Json(Envelope::done("answered", answer(&server, &instance, &request.data).await?)))
}

/// What an instance answers.
pub(in crate::model_server) async fn answer(
    server: &ModelServer,
    instance: &ModelInstance,
    data: &CallData,
) -> Result<CallAnswer, Fault> {
    let work = work(&instance.kind, data)?;
    let _pass = instance.enter()?;
    let mut answer = CallAnswer {
        instance_id: instance.id.clone(),
        model_name: instance.model.clone(),
        model_type: instance.kind.name().to_string(),
        port: server.shared.port,
        response: None,
        embedding: None,
        image_path: None,
        prompt_tokens: None,
        new_tokens: None,
        finish_reason: None,
        execution_time: 0.0,
        waiting_time: 0.0,
        emulated: instance.is_emulated(),
    };
    match work {
        EngineWork::Text(request) => {
            let done = finished(instance.generate(*request).await?).await?;
            answer.finish_reason = Some(reason(&done.reason));
            answer.prompt_tokens = Some(done.prompt_tokens);
            answer.new_tokens = Some(done.new_tokens);
            answer.execution_time = seconds(done.waited + done.prefill + done.decode);
            answer.waiting_time = seconds(done.waited);
            answer.response = Some(done.text);
        }
        EngineWork::Embed(texts) => {
            let done = instance.embed(EmbedInput::Texts(texts)).await?;
            answer.prompt_tokens = Some(done.tokens);
            answer.execution_time = done.seconds;
            answer.embedding = done.vectors.into_iter().next();
        }
        other => {
            let done = instance.run(&other).await?;
            answer.execution_time = done.seconds;
            answer.response = Some(format!("emulated: {} computed nothing", instance.model));
        }
    }
    Ok(answer)
}

/// A body that names another instance than the path is a mistake.
pub(super) fn same_instance(given: Option<&str>, id: &str) -> Result<(), Fault> {
    match given {
        Some(other) if other != id => {
            let message = format!("the body names another instance than the path, `{id}`");
            Err(Fault::param("instance_id", message))
        }
        _ => Ok(()),
    }
}
