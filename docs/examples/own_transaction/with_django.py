"""Place an order and start the run that packs it, in one transaction of Django."""

import os
import sys

import django
from django.conf import settings
from django.db import connection, models, transaction
from sqlalchemy import make_url

from agents.runner import Runner

url = make_url(os.environ["CALLBOARD_DATABASE_URL"])
kind = "sqlite3" if url.get_backend_name() == "sqlite" else "postgresql"
database = {"ENGINE": f"django.db.backends.{kind}", "NAME": url.database, "USER": url.username or ""}
settings.configure(DATABASES={"default": database | {"HOST": url.query.get("host", url.host) or ""}})
django.setup()
runner = Runner.open(inline=False)


class Order(models.Model):
    item = models.CharField(max_length=40)
    run_id = models.CharField(max_length=40)

    class Meta:
        app_label = "shop"


@transaction.atomic
def place_order(item: str) -> str:
    run = runner.run(f"Pack one {item}.", "assistant", connection=connection)
    Order.objects.create(item=item, run_id=run.run_id)
    if item == "nothing":
        raise ValueError("nothing cannot be ordered")  # the order and the run are gone
    return run.run_id


if __name__ == "__main__":
    if Order._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Order)
    print(place_order(sys.argv[1]))
    runner.close()
