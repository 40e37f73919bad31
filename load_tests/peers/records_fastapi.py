"""Peer: loans on bare FastAPI and uvicorn, as one would first write it, on the same store.

The durability is the store's, so it is the same. Run:
``STORE_URL=… uvicorn --factory load_tests.peers.records_fastapi:create_app --no-access-log``.
"""

from __future__ import annotations

import os
import secrets
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Response
from pydantic import BaseModel, Field

from deployments.store import (
    Document,
    DocumentNotFound,
    DuplicateDocument,
    open_store,
)

TABLE = "loans"
MobileNumber = Annotated[str, Query(alias="mobileNumber", pattern="^[0-9]{10}$")]


class Loan(BaseModel):
    mobileNumber: str = Field(pattern="^[0-9]{10}$")
    loanNumber: str = Field(pattern="^[0-9]{12}$")
    loanType: str = Field(min_length=1)
    totalLoan: int = Field(gt=0)
    amountPaid: int = Field(ge=0)
    outstandingAmount: int = Field(ge=0)

    def document(self) -> Document:
        return Document(self.loanNumber, self.model_dump_json().encode(), self.mobileNumber)


class Status(BaseModel):
    statusCode: str
    statusMsg: str


def create_app() -> FastAPI:
    store = open_store(os.environ["STORE_URL"])
    app = FastAPI()

    @app.post("/api/loans", status_code=201)
    async def create(mobile: MobileNumber) -> Status:
        loan = Loan(
            mobileNumber=mobile,
            loanNumber=str(10**11 + secrets.randbelow(9 * 10**11)),
            loanType="Home Loan",
            totalLoan=100_000,
            amountPaid=0,
            outstandingAmount=100_000,
        )
        try:
            await store.create(TABLE, loan.document())
        except DuplicateDocument as error:
            raise HTTPException(400, str(error)) from error
        return Status(statusCode="201", statusMsg="Loan created successfully")

    @app.get("/api/loans")
    async def fetch(mobile: MobileNumber) -> Response:
        value = await store.get_by_index(TABLE, mobile)
        if value is None:
            raise HTTPException(404, "Loan not found")
        return Response(value, media_type="application/json")

    @app.put("/api/loans")
    async def update(loan: Loan) -> Status:
        try:
            await store.replace(TABLE, loan.document())
        except DocumentNotFound as error:
            raise HTTPException(404, str(error)) from error
        except DuplicateDocument as error:
            raise HTTPException(400, str(error)) from error
        return Status(statusCode="200", statusMsg="Request processed successfully")

    @app.delete("/api/loans")
    async def delete(mobile: MobileNumber) -> Status:
        if not await store.delete_by_index(TABLE, mobile):
            raise HTTPException(404, "Loan not found")
        return Status(statusCode="200", statusMsg="Request processed successfully")

    return app
