//! How long a call would take.

use super::body::{InstanceId, JsonBody};
use super::call::{same_instance, work};
use super::lifecycle::Answer;
use super::types::{DataFeatures, Envelope, EstimateData, EstimateRequest};
use crate::fault::{FailedEnvelope, Fault};
use crate::model_server::ModelServer;
use crate::model_server::devices;
use crate::model_server::engines::{Forecast, WorkKind};
use crate::model_server::instance::ModelInstance;
use crate::model_server::registry::FoundModel;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;

/// Say how long a call of a model would take now
///
/// Of the model's instances the least busy one counts. A model on disk is measured when it is served; before that there is
/// nothing to reckon from.
#[utoipa::path(post, path = "/standalone/estimate", tag = "calls", request_body = EstimateRequest, responses(
    (status = 200, body = Envelope<EstimateData>),
    (status = 400, body = FailedEnvelope), (status = 404, body = FailedEnvelope),
    (status = 409, body = FailedEnvelope), (status = 413, body = FailedEnvelope),
    (status = 415, body = FailedEnvelope), (status = 422, body = FailedEnvelope)))]
pub(super) async fn by_model(
    State(server): State<ModelServer>,
    JsonBody(request): JsonBody<EstimateRequest>,
) -> Answer<EstimateData> {
    if let (Some(id), None) = (&request.instance_id, &request.model_name) {
        let instance = server.registry().instance(id)?;
        return of_instance(&instance, &request).await;
    }
    let name = request.model_name.clone();
    let name = name.ok_or_else(|| Fault::param("model_name", "give `model_name` or `instance_id`"))?;
    let known = server.registry().known(&name).await?;
    if let Some(device) = &request.device {
        server.registry().place(&known, devices::parse(Some(device))?)?;
    }
    if let Some(instance) = server.registry().instance_of(&name) {
        return of_instance(&instance, &request).await;
    }
    match known {
        FoundModel::Emulated(model) => {
            let forecast = model.alone(&work(model.kind(), &request.data)?)?;
            Ok(answer(&name, None, model.kind(), forecast, &request, true))
        }
        FoundModel::Embedded(_) => {
            let message = format!("`{name}` is not serving: serve it first, so that its speed is measured");
            Err(Fault::conflict("not_measured", message))
        }
    }
}

/// Say how long a call of an instance would take now
#[utoipa::path(post, path = "/standalone/estimate/{instance_id}", tag = "calls",
    params(("instance_id" = String, Path, description = "six letters and digits")),
    request_body = EstimateRequest, responses(
    (status = 200, body = Envelope<EstimateData>),
    (status = 400, body = FailedEnvelope), (status = 404, body = FailedEnvelope),
    (status = 409, body = FailedEnvelope), (status = 413, body = FailedEnvelope),
    (status = 415, body = FailedEnvelope)))]
pub(super) async fn by_instance(
    State(server): State<ModelServer>,
    InstanceId(id): InstanceId,
    JsonBody(request): JsonBody<EstimateRequest>,
) -> Answer<EstimateData> {
    let instance = server.registry().instance(&id)?;
    same_instance(request.instance_id.as_deref(), &id)?;
    if request.model_name.as_ref().is_some_and(|name| *name != instance.model) {
        let message = format!("`{id}` is an instance of `{}`", instance.model);
        return Err(Fault::param("model_name", message));
    }
    of_instance(&instance, &request).await
}

async fn of_instance(instance: &ModelInstance, request: &EstimateRequest) -> Answer<EstimateData> {
    let forecast = instance.forecast(work(&instance.kind, &request.data)?).await?;
    let id = Some(instance.id.clone());
    Ok(answer(&instance.model, id, &instance.kind, forecast, request, instance.is_emulated()))
}

fn answer(
    model: &str,
    instance_id: Option<String>,
    kind: &WorkKind,
    forecast: Forecast,
    request: &EstimateRequest,
    emulated: bool,
) -> Json<Envelope<EstimateData>> {
    let data = EstimateData {
        estimated_execution_time: forecast.seconds,
        unit: "seconds".to_string(),
        model_name: model.to_string(),
        instance_id,
        model_type: kind.name().to_string(),
        data_features: DataFeatures {
            prompt_tokens: forecast.prompt_tokens,
            new_tokens: forecast.new_tokens,
            steps: request.data.steps,
            guidance_scale: request.data.guidance_scale,
        },
        timestamp: Timestamp::now().to_string(),
        emulated,
    };
    Json(Envelope::done("estimated", data))
}
