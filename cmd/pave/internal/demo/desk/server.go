package desk

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"sync"
)

// Server serves a World as tools over HTTP. It keeps a log of its own of every tool call it answered, so that
// what others claim can be compared with what really happened.
type Server struct {
	mu     sync.Mutex
	world  *World
	outage bool
	failed map[string]bool // parcels whose first query of an outage was refused
	log    map[string]int  // answered calls by tool
	mux    *http.ServeMux
}

// NewServer serves w. The server owns w from now on.
func NewServer(w *World) *Server {
	s := &Server{world: w, failed: map[string]bool{}, log: map[string]int{}, mux: http.NewServeMux()}
	s.tools()
	s.controls()
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// apiError is an answer other than 200.
type apiError struct {
	status int
	text   string
}

func notFound(what, id string) *apiError { return &apiError{404, "no " + what + " " + id} }

// handle registers a tool: f runs under the lock and returns the answer or an error.
func (s *Server) handle(pattern, tool string, f func(r *http.Request) (any, *apiError)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		v, e := f(r)
		s.log[tool]++
		s.mu.Unlock()
		if e != nil {
			answer(w, e.status, map[string]string{"error": e.text})
			return
		}
		answer(w, http.StatusOK, v)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

func (s *Server) tools() {
	w := s.world
	s.handle("GET /customers", "find_customer_by_email", func(r *http.Request) (any, *apiError) {
		c := w.customers[r.URL.Query().Get("email")]
		if c == nil {
			return nil, notFound("customer with e-mail", r.URL.Query().Get("email"))
		}
		return map[string]string{"customer_id": c.ID}, nil
	})
	s.handle("GET /customers-by-name", "find_customer_by_name_zip", func(r *http.Request) (any, *apiError) {
		q := r.URL.Query()
		for _, c := range w.Customers {
			if c.Name.First == q.Get("first_name") && c.Name.Last == q.Get("last_name") && c.Address.Zip == q.Get("zip") {
				return map[string]string{"customer_id": c.ID}, nil
			}
		}
		return nil, notFound("customer called", q.Get("first_name")+" "+q.Get("last_name"))
	})
	s.handle("GET /customers/{id}", "get_customer", func(r *http.Request) (any, *apiError) {
		return found(w.customers[r.PathValue("id")], "customer", r.PathValue("id"))
	})
	s.handle("GET /orders/{id}", "get_order", func(r *http.Request) (any, *apiError) {
		return found(w.Orders[r.PathValue("id")], "order", r.PathValue("id"))
	})
	s.handle("GET /shipments/{id}", "get_shipment", func(r *http.Request) (any, *apiError) {
		return found(w.shipments[r.PathValue("id")], "shipment", r.PathValue("id"))
	})
	s.handle("GET /payments/{id}", "get_payment", func(r *http.Request) (any, *apiError) {
		return found(w.payments[r.PathValue("id")], "payment", r.PathValue("id"))
	})
	s.handle("GET /products/{id}", "get_product", func(r *http.Request) (any, *apiError) {
		return found(w.products[r.PathValue("id")], "product", r.PathValue("id"))
	})
	s.handle("GET /suppliers/{id}", "get_supplier", func(r *http.Request) (any, *apiError) {
		return found(w.suppliers[r.PathValue("id")], "supplier", r.PathValue("id"))
	})
	s.handle("GET /parcels/{carrier}/{number}", "track_parcel", s.trackParcel)
	s.handle("GET /articles", "search_articles", s.searchArticles)
	s.handle("GET /articles/{id}", "get_article", func(r *http.Request) (any, *apiError) {
		for _, a := range w.Articles {
			if a.ID == r.PathValue("id") {
				return a, nil
			}
		}
		return nil, notFound("article", r.PathValue("id"))
	})
	s.handle("GET /clock", "get_time", func(*http.Request) (any, *apiError) {
		return map[string]int{"calls_today": s.log["get_time"]}, nil
	})
	s.handle("POST /refunds", "issue_refund", s.issueRefund)
	s.handle("POST /returns", "create_return_label", s.createReturnLabel)
	s.handle("POST /messages", "send_message", s.sendMessage)
}

// controls are for whoever runs the desk: how often each tool was called, and an outage that begins and ends.
func (s *Server) controls() {
	s.mux.HandleFunc("GET /log", func(rw http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer(rw, http.StatusOK, s.log)
	})
	s.mux.HandleFunc("POST /outage/{state}", func(rw http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outage = r.PathValue("state") == "on"
		answer(rw, http.StatusOK, map[string]bool{"outage": s.outage})
	})
}

func found[T any](v *T, what, id string) (any, *apiError) {
	if v == nil {
		return nil, notFound(what, id)
	}
	return v, nil
}

// trackParcel refuses the first query of every fifth parcel while the carrier has an outage.
func (s *Server) trackParcel(r *http.Request) (any, *apiError) {
	key := r.PathValue("carrier") + "/" + r.PathValue("number")
	p := s.world.parcels[key]
	if p == nil {
		return nil, notFound("parcel", key)
	}
	if s.outage && strings.ContainsAny(key[len(key)-1:], "05") && !s.failed[key] {
		s.failed[key] = true
		return nil, &apiError{503, "carrier does not answer, try again"}
	}
	return p, nil
}

func (s *Server) searchArticles(r *http.Request) (any, *apiError) {
	type hit struct {
		ID    string `json:"article_id"`
		Title string `json:"title"`
	}
	hits := []hit{}
	for _, a := range s.world.Articles {
		for _, word := range strings.Fields(strings.ToLower(r.URL.Query().Get("query"))) {
			if len(word) > 4 && strings.Contains(strings.ToLower(a.Title), word) {
				hits = append(hits, hit{a.ID, a.Title})
				break
			}
		}
	}
	return map[string]any{"articles": hits}, nil
}

// body decodes a POST body of string and number fields.
func body(r *http.Request, into any) *apiError {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<16))
	if err := d.Decode(into); err != nil {
		return &apiError{400, "body is not the expected JSON: " + err.Error()}
	}
	return nil
}

// derivedID makes the id of a new record from what it is about, so that it does not depend on the calls of others.
func derivedID(prefix string, parts ...string) string {
	h := fnv.New32a()
	h.Write([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("%s-%08X", prefix, h.Sum32())
}

func (s *Server) issueRefund(r *http.Request) (any, *apiError) {
	var in struct {
		PaymentID string  `json:"payment_id"`
		Amount    float64 `json:"amount"`
		Reason    string  `json:"reason"`
	}
	if e := body(r, &in); e != nil {
		return nil, e
	}
	p := s.world.payments[in.PaymentID]
	switch {
	case p == nil:
		return nil, notFound("payment", in.PaymentID)
	case p.Refunded:
		return nil, &apiError{409, "payment " + p.ID + " is refunded already"}
	case in.Amount <= 0 || in.Amount > p.Amount:
		return nil, &apiError{422, "amount must be above 0 and at most the payment's"}
	}
	p.Refunded = true
	return map[string]any{"refund_id": derivedID("RF", p.ID), "payment_id": p.ID, "amount": in.Amount, "status": "issued"}, nil
}

func (s *Server) createReturnLabel(r *http.Request) (any, *apiError) {
	var in struct {
		OrderID string `json:"order_id"`
		Carrier string `json:"carrier"`
	}
	if e := body(r, &in); e != nil {
		return nil, e
	}
	if s.world.Orders[in.OrderID] == nil {
		return nil, notFound("order", in.OrderID)
	}
	id := derivedID("LB", in.OrderID)
	return map[string]any{"label_id": id, "order_id": in.OrderID, "url": "https://labels.example.com/" + in.Carrier + "/" + id}, nil
}

func (s *Server) sendMessage(r *http.Request) (any, *apiError) {
	var in struct {
		Email     string `json:"email"`
		Template  string `json:"template"`
		Reference string `json:"reference"`
	}
	if e := body(r, &in); e != nil {
		return nil, e
	}
	if s.world.customers[in.Email] == nil {
		return nil, notFound("customer with e-mail", in.Email)
	}
	return map[string]any{"message_id": derivedID("MSG", in.Email, in.Template, in.Reference), "status": "queued"}, nil
}
