package demo

import (
	"fmt"
	"math/rand/v2"

	"pave/cmd/pave/internal/demo/desk"
)

// ticketKind is one sort of customer request with the script that an agent follows for it.
type ticketKind struct {
	name   string
	weight int
	text   func(c *desk.Customer, o *desk.Order) string
	script func(d *dialogue, tk ticket)
}

func arg(kv ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	return m
}

var ticketKinds = []*ticketKind{
	{"where is my order", 30, func(c *desk.Customer, o *desk.Order) string {
		return fmt.Sprintf("Hello, I am %s and I wait for my order %s. Where is it?", c.Email, o.ID)
	}, func(d *dialogue, tk ticket) {
		if !d.identify(tk) {
			return
		}
		order := d.step("get_order", arg("order_id", tk.order.ID))
		ship := d.step("get_shipment", arg("shipment_id", order["shipment_id"]))
		d.step("track_parcel", arg("carrier", ship["carrier"], "tracking_number", ship["tracking_number"]))
		d.answer()
	}},
	{"refund", 18, func(c *desk.Customer, o *desk.Order) string {
		return fmt.Sprintf("My order %s arrived damaged, please refund me.", o.ID)
	}, func(d *dialogue, tk ticket) {
		order := d.step("get_order", arg("order_id", tk.order.ID))
		pay := d.step("get_payment", arg("payment_id", order["payment_id"]))
		refund := d.step("issue_refund", arg("payment_id", pay["payment_id"], "amount", pay["amount"], "reason", "damaged"))
		if refund != nil { // a payment is refunded once; the model sees the refusal and stops
			d.step("send_message", arg("email", order["contact_email"], "template", "refund_issued", "reference", refund["refund_id"]))
		}
		d.answer()
	}},
	{"return label", 14, func(c *desk.Customer, o *desk.Order) string {
		return fmt.Sprintf("I want to send order %s back. Can I have a label?", o.ID)
	}, func(d *dialogue, tk ticket) {
		order := d.step("get_order", arg("order_id", tk.order.ID))
		ship := d.step("get_shipment", arg("shipment_id", order["shipment_id"]))
		label := d.step("create_return_label", arg("order_id", order["order_id"], "carrier", ship["carrier"]))
		d.step("send_message", arg("email", order["contact_email"], "template", "return_label", "reference", label["label_id"]))
		d.answer()
	}},
	{"one of my orders", 16, func(c *desk.Customer, o *desk.Order) string {
		return fmt.Sprintf("This is %s. What was in the order with the %s?", c.Email, o.Items[0].Title)
	}, func(d *dialogue, tk ticket) {
		if d.identify(tk) { // the model picks among the customer's orders
			d.step("get_order", arg("order_id", tk.order.ID))
			d.answer()
		}
	}},
	{"help centre", 10, func(*desk.Customer, *desk.Order) string { return "" }, func(d *dialogue, tk ticket) {
		topic := []string{"password", "address", "gift card", "subscription", "invoice", "warranty"}[d.rand.IntN(6)]
		d.said = "Where do I find something about my " + topic + "?"
		found := d.step("search_articles", arg("query", topic+" help"))
		if hits, _ := found["articles"].([]any); len(hits) > 0 { // the model picks a hit by its title
			hit, _ := hits[d.rand.IntN(len(hits))].(map[string]any)
			d.step("get_article", arg("article_id", hit["article_id"]))
		}
		d.answer()
	}},
	{"order overview", 6, func(c *desk.Customer, o *desk.Order) string {
		return fmt.Sprintf("Please tell me everything about order %s.", o.ID)
	}, func(d *dialogue, tk ticket) {
		order := d.step("get_order", arg("order_id", tk.order.ID))
		d.parallel([]string{"get_shipment", "get_payment"}, []map[string]any{arg("shipment_id", order["shipment_id"]), arg("payment_id", order["payment_id"])})
		d.answer()
	}},
	{"product question", 6, func(c *desk.Customer, o *desk.Order) string {
		return fmt.Sprintf("Is there a warranty on %s?", o.Items[0].SKU)
	}, func(d *dialogue, tk ticket) {
		d.step("get_product", arg("sku", tk.order.Items[0].SKU))
		d.answer()
	}},
}

// identify finds the customer by e-mail and reads the profile. One in eight customers mistypes the address: the
// agent asks back and looks up by name and zip code.
func (d *dialogue) identify(tk ticket) bool {
	email := tk.customer.Email
	if d.rand.IntN(8) == 0 {
		d.step("find_customer_by_email", arg("email", "x"+email))
		d.answer()
		d.user(fmt.Sprintf("Sorry. I am %s %s, zip %s.", tk.customer.Name.First, tk.customer.Name.Last, tk.customer.Address.Zip))
		found := d.step("find_customer_by_name_zip", arg("first_name", tk.customer.Name.First, "last_name", tk.customer.Name.Last, "zip", tk.customer.Address.Zip))
		return d.profile(found)
	}
	return d.profile(d.step("find_customer_by_email", arg("email", email)))
}

func (d *dialogue) profile(found map[string]any) bool {
	return found != nil && d.step("get_customer", arg("customer_id", found["customer_id"])) != nil
}

// drawTickets makes n tickets over the given customers; every order is asked for a refund at most once.
func drawTickets(r *rand.Rand, prefix string, customers []*desk.Customer, orders map[string]*desk.Order, n int) []ticket {
	total := 0
	for _, k := range ticketKinds {
		total += k.weight
	}
	refunded := map[string]bool{}
	var out []ticket
	for len(out) < n {
		c := customers[r.IntN(len(customers))]
		o := orders[c.OrderIDs[r.IntN(len(c.OrderIDs))]]
		k := pickKind(r.IntN(total))
		if k.name == "refund" {
			if refunded[o.ID] {
				continue
			}
			refunded[o.ID] = true
		}
		out = append(out, ticket{session: fmt.Sprintf("%s-%04d", prefix, len(out)), kind: k, text: k.text(c, o), customer: c, order: o})
	}
	return out
}

func pickKind(x int) *ticketKind {
	for _, k := range ticketKinds {
		if x -= k.weight; x < 0 {
			return k
		}
	}
	panic("weights do not add up")
}
