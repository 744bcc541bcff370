// Package desk is the support desk of the demo: a small HTTP tool server over generated customers, orders,
// shipments, payments and articles. The same seed makes the same world, and its answers depend on nothing but
// the calls made so far, so that two servers that get the same calls give the same answers.
package desk

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Customer of the generated shop.
type Customer struct {
	ID       string   `json:"customer_id"`
	Name     Name     `json:"name"`
	Email    string   `json:"email"`
	Tier     string   `json:"tier"`
	Address  Address  `json:"address"`
	OrderIDs []string `json:"order_ids"`
}

// Name of a customer.
type Name struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

// Address of a customer.
type Address struct {
	Street string `json:"street"`
	City   string `json:"city"`
	Zip    string `json:"zip"`
}

// Item of an order.
type Item struct {
	SKU      string  `json:"sku"`
	Title    string  `json:"title"`
	Price    float64 `json:"price"`
	Quantity int     `json:"quantity"`
}

// Order of a customer; ShipmentID and PaymentID lead to the other records.
type Order struct {
	ID           string  `json:"order_id"`
	CustomerID   string  `json:"customer_id"`
	ContactEmail string  `json:"contact_email"`
	Status       string  `json:"status"`
	Items        []Item  `json:"items"`
	Total        float64 `json:"total"`
	ShipmentID   string  `json:"shipment_id"`
	PaymentID    string  `json:"payment_id"`
}

// Shipment of an order.
type Shipment struct {
	ID             string `json:"shipment_id"`
	Carrier        string `json:"carrier"`
	TrackingNumber string `json:"tracking_number"`
	Status         string `json:"status"`
}

// Parcel is what the carrier knows.
type Parcel struct {
	Location  string `json:"location"`
	ETADays   int    `json:"eta_days"`
	Delivered bool   `json:"delivered"`
}

// Payment of an order.
type Payment struct {
	ID       string  `json:"payment_id"`
	Method   string  `json:"method"`
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
	Refunded bool    `json:"refunded"`
}

// Article of the help centre.
type Article struct {
	ID    string `json:"article_id"`
	Title string `json:"title"`
	Body  string `json:"body"`
}

// Product in the catalogue.
type Product struct {
	SKU            string `json:"sku"`
	Title          string `json:"title"`
	SupplierID     string `json:"supplier_id"`
	WarrantyMonths int    `json:"warranty_months"`
}

// Supplier of products.
type Supplier struct {
	ID           string `json:"supplier_id"`
	Name         string `json:"name"`
	LeadTimeDays int    `json:"lead_time_days"`
}

// World is everything the desk knows. It is built by NewWorld and guarded by the Server that serves it.
type World struct {
	Customers []*Customer
	customers map[string]*Customer // by id and by e-mail
	Orders    map[string]*Order
	shipments map[string]*Shipment
	parcels   map[string]*Parcel // by carrier/tracking number
	payments  map[string]*Payment
	Articles  []*Article
	products  map[string]*Product
	suppliers map[string]*Supplier
}

var (
	firstNames = []string{"Ada", "Björn", "Chidi", "Dana", "Emeka", "Fatima", "Goran", "Hana", "Iris", "João", "Keiko", "Liam", "Mei", "Noor", "Olga", "Pablo", "Quinn", "Rosa", "Sven", "Tara"}
	lastNames  = []string{"Abbott", "Bauer", "Costa", "Dubois", "Eriksen", "Fischer", "García", "Horvat", "Ito", "Jansen", "Kaya", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov", "Rossi", "Silva", "Tanaka", "Weber"}
	cities     = []string{"Aarhus", "Bilbao", "Cork", "Dresden", "Eindhoven", "Florence", "Ghent", "Helsinki"}
	carriers   = []string{"northpost", "swiftline", "parcelo"}
	goods      = []string{"desk lamp", "kettle", "rain jacket", "keyboard", "trail shoes", "headphones", "backpack", "camping stove", "bike pump", "coffee grinder"}
	topics     = []string{"reset my password", "change my delivery address", "use a gift card", "cancel a subscription", "download an invoice", "register a warranty"}
)

// NewWorld generates n customers with one to four orders each.
func NewWorld(seed uint64, n int) *World {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	w := &World{
		customers: map[string]*Customer{}, Orders: map[string]*Order{}, shipments: map[string]*Shipment{},
		parcels: map[string]*Parcel{}, payments: map[string]*Payment{}, products: map[string]*Product{}, suppliers: map[string]*Supplier{},
	}
	for i, title := range goods {
		sku := fmt.Sprintf("SKU-%03d", 100+7*i)
		sup := &Supplier{ID: fmt.Sprintf("SUP-%02d", i%4), Name: lastNames[i%4] + " Trading", LeadTimeDays: 3 + i%9}
		w.suppliers[sup.ID] = sup
		w.products[sku] = &Product{SKU: sku, Title: title, SupplierID: sup.ID, WarrantyMonths: 12 * (1 + i%3)}
	}
	for i, topic := range topics {
		for v, kind := range []string{"How to", "Troubleshooting:", "Policy:"} {
			w.Articles = append(w.Articles, &Article{
				ID:    fmt.Sprintf("KB-%d%02d", i+1, v*11+r.IntN(10)),
				Title: kind + " " + topic,
				Body:  "Step by step: " + topic + ". Variant " + fmt.Sprint(v+1) + ".",
			})
		}
	}
	for i := range n {
		w.addCustomer(r, i)
	}
	return w
}

func (w *World) addCustomer(r *rand.Rand, i int) {
	c := &Customer{
		ID:      fmt.Sprintf("C%05d", 10000+i*37+r.IntN(30)),
		Name:    Name{firstNames[r.IntN(len(firstNames))], lastNames[r.IntN(len(lastNames))]},
		Tier:    []string{"standard", "plus", "business"}[r.IntN(3)],
		Address: Address{fmt.Sprintf("%d %s Street", 1+r.IntN(300), lastNames[r.IntN(len(lastNames))]), cities[r.IntN(len(cities))], fmt.Sprintf("%05d", r.IntN(100000))},
	}
	c.Email = fmt.Sprintf("%s.%s%d@example.com", strings.ToLower(c.Name.First), strings.ToLower(c.Name.Last), i)
	for range 1 + r.IntN(4) {
		w.addOrder(r, c)
	}
	w.Customers = append(w.Customers, c)
	w.customers[c.ID] = c
	w.customers[c.Email] = c
}

func (w *World) addOrder(r *rand.Rand, c *Customer) {
	n := len(w.Orders)
	o := &Order{
		ID: fmt.Sprintf("W%07d", 2000000+n*113+r.IntN(100)), CustomerID: c.ID, ContactEmail: c.Email,
		Status:     []string{"shipped", "delivered"}[r.IntN(2)],
		ShipmentID: fmt.Sprintf("SH-%06d", 400000+n*17+r.IntN(16)),
		PaymentID:  fmt.Sprintf("PAY-%06d", 700000+n*19+r.IntN(18)),
	}
	for range 1 + r.IntN(3) {
		k := r.IntN(len(goods))
		it := Item{SKU: fmt.Sprintf("SKU-%03d", 100+7*k), Title: goods[k], Price: float64(500+r.IntN(15000)) / 100, Quantity: 1 + r.IntN(2)}
		o.Items = append(o.Items, it)
		o.Total += it.Price * float64(it.Quantity)
	}
	o.Total = float64(int(o.Total*100+0.5)) / 100
	sh := &Shipment{ID: o.ShipmentID, Carrier: carriers[r.IntN(len(carriers))], TrackingNumber: fmt.Sprintf("TR%09d", r.IntN(1_000_000_000)), Status: o.Status}
	w.shipments[sh.ID] = sh
	w.parcels[sh.Carrier+"/"+sh.TrackingNumber] = &Parcel{Location: cities[r.IntN(len(cities))], ETADays: r.IntN(6), Delivered: o.Status == "delivered"}
	w.payments[o.PaymentID] = &Payment{ID: o.PaymentID, Method: []string{"card", "invoice", "gift_card"}[r.IntN(3)], Amount: o.Total, Currency: "EUR"}
	w.Orders[o.ID] = o
	c.OrderIDs = append(c.OrderIDs, o.ID)
}
